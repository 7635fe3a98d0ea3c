"""A real Kubernetes cluster on one Linux machine, without Docker and without a container registry.

It serves the demo and the end-to-end tests: etcd and the control plane run as plain processes, every node has its own
network and mount namespace with containerd, kubelet and kube-proxy in it. `python -m devcluster --help` is the way in.
"""
