"""Cluster objects -> the operator's types: observation, membership, what is held, the planner's Snapshot. Pure."""
