"""The node agent: an HTTPS server over one node's data root; see docs/reference/agent-api.md."""
