"""Whether the joins of a query are colocated, as its plan shows, and why not."""
