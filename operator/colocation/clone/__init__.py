"""The clone Job's program: make one bucket complete on this node; see docs/reference/contracts.md."""
