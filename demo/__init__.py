"""The demo: TPC-H on a real cluster, colocated joins that survive the loss of a node.

It uses the product as a user does: helm, kubectl and the ``colocation`` command. The end-to-end tests drive the
same steps (``demo.cluster``, ``demo.workload``) and look closer.
"""
