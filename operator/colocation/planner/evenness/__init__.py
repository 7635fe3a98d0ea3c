"""Even placements: fair shares, the transfers that restore them, and the minimum-cost flow that proves an optimum.

Pure arithmetic on buckets, nodes and weights; knows nothing of groups, clones or health.
"""
