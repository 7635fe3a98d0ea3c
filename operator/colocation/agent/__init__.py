"""The node agent: an HTTPS server over one node's data root; see ARCHITECTURE.md, "Agent API"."""
