"""Observation + Plan -> Actions: what one pass decides, which `colocation.kube` performs. Pure."""
