"""The kopf shell around the pure core: wake, observe, plan, decide, apply."""
