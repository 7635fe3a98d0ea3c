"""The operator's only talk to the Kubernetes API and the agents: observe -> Snapshot, apply <- actions."""
