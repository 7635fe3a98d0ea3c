# Both images for both architectures: REGISTRY=… TAG=… docker buildx bake --push. `make wheel` comes first; what it builds
# (Python, a jar) is the same on every architecture.
variable "REGISTRY" {}
variable "TAG" {}

group "default" { targets = ["operator", "spark"] }

target "operator" {
  context    = "."
  dockerfile = "Dockerfile"
  platforms  = ["linux/amd64", "linux/arm64"]
  tags       = ["${REGISTRY}/colocation-operator:${TAG}"]
  attest     = ["type=sbom", "type=provenance,mode=max"]
}

target "spark" {
  context    = "."
  dockerfile = "spark_images/Dockerfile"
  platforms  = ["linux/amd64", "linux/arm64"]
  tags       = ["${REGISTRY}/colocation-spark:${TAG}"]
  attest     = ["type=sbom", "type=provenance,mode=max"]
}
