"""The clone Job's program: make one bucket complete on this node; see ARCHITECTURE.md, "Clone Job"."""
