"""A wall clock of its own for the containers of a node."""
