"""Colocation groups for PySpark on Kubernetes."""
