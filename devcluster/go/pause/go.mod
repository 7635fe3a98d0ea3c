// The program of the pod sandbox image: no registry can be reached to pull the usual one.
module colocation.dev/devcluster/pause

go 1.25.0
