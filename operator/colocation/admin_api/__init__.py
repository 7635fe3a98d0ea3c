"""The admin API of the operator: Doris' and StarRocks' ``/api/colocate`` paths, for admins only."""
