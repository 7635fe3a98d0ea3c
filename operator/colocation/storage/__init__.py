"""A node's data root: safe paths, verified publication, what is held, recycling.

Used by the agent and by the clone Job, which are two processes that write below the same root.
"""
