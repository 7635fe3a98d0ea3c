"""A session of many queries, as a server's or a notebook's that is left open: its driver's heap stays flat.

``QUERIES=2000 pytest tests/spark/test_long_session.py`` asks as many as we promise for a driver of 1 GiB.
"""

import os
import sys
import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

from colocation.spark import explain_json
from tests.chaos.rows import PARTS, TABLES_OF, Content, as_rows, cells, oracle, select_rows
from tests.chaos.rows import QUERIES as TEXTS
from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.loopback import LoopbackAgents

QUERIES = int(os.environ.get("QUERIES", "150"))
WARM_QUERIES = min(QUERIES // 2, 1100)
"""Until then Spark loads classes and compiles plans; it remembers 1,000 executed queries for its UI."""
QUERIES_BETWEEN_LOADS = 20
GROWTH_BYTES = 32 << 20
CLEANING_SECONDS = 3.0
"""Spark's cleaner removes what the collector found unused (a scan's broadcast holds a whole Hadoop configuration)."""
NAMESPACE = "long"
TABLES = ("orders", "items")

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(300 + 3 * QUERIES)]


class LongSession:
    """Tables, what is in them, and an application that asks; ``is_new``: by a session of the query's own."""

    def __init__(self, application: SparkSession, tables: ClusterTables) -> None:
        self._application, self._tables = application, tables
        self._session = self._opened()
        self._content: dict[str, Content] = {}
        tables.add_group("sales", ["bigint"], MAP)
        for batch, name in enumerate(TABLES):
            tables.add_table(name, application.sql(select_rows(range(PARTS), batch)), ["key"], ("part",))
            self._content[name] = cells(range(PARTS), batch)

    def _opened(self) -> SparkSession:
        session = self._tables.configure(self._application.newSession())
        session.sql(f"USE {CATALOG}.{NAMESPACE}")
        return session

    def ask(self, query: str, names: tuple[str, ...], is_new: bool, is_explained: bool) -> None:
        """One query, whose answer must be right."""
        session = self._opened() if is_new else self._session
        frame = session.sql(TEXTS[query].format(*names))
        rows = as_rows([list(row) for row in frame.collect()])
        assert rows == oracle().answer(query, tuple(self._content[name] for name in names))
        if is_explained:
            explain_json(frame)

    def overwrite(self, name: str, part: int, batch: int) -> None:
        """One partition."""
        self._tables.load(self._session.sql(select_rows([part], batch)), name, mode="overwrite-partitions")
        others = frozenset(cell for cell in self._content[name] if cell[0] != part)
        self._content[name] = others | cells([part], batch)

    def heap_bytes(self) -> int:
        """What the driver's garbage collector cannot take, once Spark's cleaner has nothing more to do."""
        jvm: Any = self._application.sparkContext._jvm
        memory, least = jvm.java.lang.management.ManagementFactory.getMemoryMXBean(), sys.maxsize
        while True:
            jvm.System.gc()
            used = int(memory.getHeapMemoryUsage().getUsed())
            if used > least - (1 << 20):
                return min(used, least)
            least = used
            time.sleep(CLEANING_SECONDS)


def test_heap_stays_flat(application: SparkSession, agents: LoopbackAgents, plane: ControlPlane) -> None:
    """Joins, group-bys and windows, explained or not, in old and new sessions, while tables are loaded."""
    session = LongSession(application, ClusterTables(plane, agents, NAMESPACE))
    warm_bytes = 0
    for number in range(QUERIES):
        query = [*TEXTS][number % len(TEXTS)]
        names = (TABLES if number % 3 else TABLES[::-1])[: TABLES_OF[query]]
        session.ask(query, names, is_new=number % 5 == 0, is_explained=number % 7 == 0)
        if number % QUERIES_BETWEEN_LOADS == 0:
            session.overwrite(TABLES[number % 2], number % PARTS, number + len(TABLES))
        if number == WARM_QUERIES:
            warm_bytes = session.heap_bytes()
    grown_bytes = session.heap_bytes() - warm_bytes
    assert grown_bytes < GROWTH_BYTES, f"the heap grew by {grown_bytes >> 20} MiB in {QUERIES - WARM_QUERIES} queries"
