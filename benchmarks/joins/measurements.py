"""What a run measures: which workloads in which variants, on which tables. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from .tables import Table, layouts, seed_tables, tpch_tables
from .tpch import WHOLE_TPCH
from .variants import OF_LAYOUTS, OF_WHOLE_TPCH, VARIANTS, WITH_ONE_NODE_DOWN, Variant
from .workloads import LAYOUTS, WORKLOADS, Workload


@dataclass(frozen=True)
class Measurement:
    """The seeds' tables are made where ``has_seed_tables``, those of other layouts where ``has_layouts``."""

    variants: Sequence[Variant]
    workloads: Sequence[Workload] = WORKLOADS
    has_seed_tables: bool = True
    has_layouts: bool = False
    warm_up_rounds: int = 2

    def tables(self, rows_per_day: int) -> tuple[Table, ...]:
        """Every bucketed table."""
        seeds = seed_tables(rows_per_day) if self.has_seed_tables else ()
        return (*tpch_tables(), *seeds, *(layouts() if self.has_layouts else ()))


JOINS, ONE_NODE_DOWN, LOCALITY, TPCH, OTHER_LAYOUTS = "joins", "one-node-down", "locality", "tpch", "layouts"
MEASUREMENTS = {
    JOINS: Measurement(VARIANTS),
    ONE_NODE_DOWN: Measurement(WITH_ONE_NODE_DOWN),
    LOCALITY: Measurement(VARIANTS[:1]),
    TPCH: Measurement(OF_WHOLE_TPCH, WHOLE_TPCH, has_seed_tables=False, warm_up_rounds=1),
    OTHER_LAYOUTS: Measurement(OF_LAYOUTS, LAYOUTS, has_seed_tables=False, has_layouts=True),
}
