"""Observation + Plan -> Actions: what one pass decides, performed by nobody here. Pure."""
