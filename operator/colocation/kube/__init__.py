"""The operator's only I/O: the Kubernetes API and the node agents."""
