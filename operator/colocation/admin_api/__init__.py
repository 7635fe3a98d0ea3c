"""The admin API of the operator: the seeds' ``/api/colocate`` paths, for admins only."""
