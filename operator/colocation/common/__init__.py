"""Small tools that several packages share; each imports at most `colocation.model`."""
