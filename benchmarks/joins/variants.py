"""The ways to run a workload, side by side. Pure."""

from dataclasses import dataclass, field

from .tables import NAMESPACE, SMALL_TABLES, layouts, seed_tables, tpch_tables
from .workloads import Workload

DISABLE_COLOCATE_JOIN = "spark.colocation.disableColocateJoin"
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}
ANY_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "1g", "spark.sql.adaptive.autoBroadcastJoinThreshold": "1g"}
WITHOUT_BUCKETS = frozenset({"shuffle", "broadcast", "ordinary"})

SMALL = "plain"
NATIVE = "duckdb"
PEERS = "peers"
COLOCATED = f"colocation.{NAMESPACE}"
ICEBERG_CATALOG = "ice"
ICEBERG = f"{ICEBERG_CATALOG}.peers"


@dataclass(frozen=True)
class Variant:
    """Where the tables are and the session's settings; ``prefix`` goes before the bucketed tables' names."""

    name: str
    prefix: str
    conf: dict[str, str] = field(default_factory=dict)

    def statement(self, workload: Workload) -> str:
        """The statement that this variant runs."""
        text = workload.floor if self.name == "floor" else workload.statement
        return statement_with(text, f"{self.prefix}.", f"{SMALL}.")

    def runs(self, workload: Workload) -> bool:
        """Whether the workload makes sense in this way."""
        return self.name != "broadcast" or workload.broadcast_fits


def statement_with(text: str, prefix: str, prefix_of_small: str) -> str:
    """The statement on the bucketed tables and the small ones that have these prefixes."""
    tables = (*tpch_tables(), *seed_tables(rows_per_day=1), *layouts())
    bucketed = {table.name: f"{prefix}{table.name}" for table in tables}
    return text.format(**bucketed, **{name: f"{prefix_of_small}{name}" for name in SMALL_TABLES})


VARIANTS = (
    Variant("colocated", COLOCATED),
    Variant("floor", COLOCATED, {"spark.sql.sources.bucketing.autoBucketedScan.enabled": "false"}),
    Variant("spark_bucketed", PEERS),
    Variant("iceberg_spj", ICEBERG),
    Variant("shuffle", COLOCATED, NO_BROADCAST),
    Variant("broadcast", COLOCATED, ANY_BROADCAST),
)
"""The floor keeps one task per bucket, which is its best task count: one per file costs more than it gains."""

ONE_NODE_DOWN = "one_node_down"
WITH_ONE_NODE_DOWN = tuple(variant for variant in VARIANTS if variant.name in ("colocated", "floor", "shuffle"))
"""What is measured while a node is away: the peers' files lie on the disk that all pods share, and lose nothing."""

OF_LAYOUTS = tuple(variant for variant in VARIANTS if variant.name != "broadcast")
OF_WHOLE_TPCH = (
    *(variant for variant in VARIANTS if variant.name in ("colocated", "spark_bucketed")),
    Variant("ordinary", COLOCATED),
)
"""``ordinary`` is Spark as it comes: it shuffles what it does not take for small enough to be broadcast. Iceberg's
storage-partitioned joins are left out: Q21 fails an assertion of Spark's adaptive execution (Iceberg 1.11, Spark 4.1).
"""
