"""A node's data root: safe paths, verified publication, inventory, quarantine, deletion, recycle bin.

The agent and the clone Jobs of a node use it; they are separate processes that write below one root.
"""
