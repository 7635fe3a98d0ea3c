"""The largest sizes that an object may state."""

MAX_BUCKETS = 65536
MAX_REPLICAS = 7
MAX_KEY_COLUMNS = 16
MAX_MAP_BYTES = 3 << 18
"""Of a group's map as JSON: half of what etcd takes for an object, as ``spec.bucketSequence`` may hold it once more."""
