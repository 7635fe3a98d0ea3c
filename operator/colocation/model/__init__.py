"""Frozen types of the domain: group, table, bucket, replica, node, snapshot, plan.

Pure data and pure functions; imports nothing of ours outside this package and does no I/O.
"""
