"""The join benchmark: colocated tables, a shuffle, a broadcast, two peers that need no shuffle, and no join."""
