"""The largest sizes that an object may state."""

MAX_BUCKETS = 65536
MAX_REPLICAS = 7
MAX_KEY_COLUMNS = 16
MAX_COLUMNS = 2000
MAX_CONDITIONS = 32
MAX_NAMESPACE_LENGTH = 63
MAX_NAME_LENGTH = 63
"""Names of groups and tables become label values, which Kubernetes limits."""
MAX_GROUP_REFERENCE_LENGTH = MAX_NAMESPACE_LENGTH + 1 + MAX_NAME_LENGTH
"""Of ``<namespace>/<group>``."""
MAX_MAP_BYTES = 3 << 18
"""Of a group's map as JSON: half of what etcd takes for an object; its tables and all else need the other half."""
MAX_SEQUENCE_BYTES = MAX_MAP_BYTES // 2
"""Of a map set by hand, which the object holds twice: in ``spec.bucketSequence`` and, carried out, in the status."""
MAX_MANIFEST_FILES = 1 << 18
"""Files of one replica of a table: agents keep some 500 bytes of memory for each that a live manifest names."""
