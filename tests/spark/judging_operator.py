"""An operator that only judges tables: spec and columns as the real one does, and what else a test asks for."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from colocation.model.conditions import Reason
from colocation.state.membership import memberships
from colocation.state.observation import Observation
from colocation.state.parse import parse_table
from tests.integration.control_plane import Conflict, ControlPlane, NoSuchObject, path_of
from tests.spark.cluster_tables import ClusterTables
from tests.spark.loopback import LoopbackAgents


class Operator:
    """Judges every table of the namespace once per generation: its spec, and its files, as the real operator does.

    ``refuse``: other specs that it does not take, and why. Like the real one it writes what it has decided only while
    the table is as it was when it was read.
    """

    def __init__(self, tables: ClusterTables) -> None:
        self._tables = tables
        self._path = path_of("ct", namespace=tables.namespace)
        self.refuse: Callable[[dict[str, Any]], str] = lambda spec: ""

    def watch(self) -> BaseHTTPResponse:
        """The API server's stream of events: one for each table that is there, then one for each change."""
        return self._tables.plane.watch(self._path)

    def run(self, events: BaseHTTPResponse) -> None:
        """Judge the tables at each event until the stream is shut down."""
        with suppress(HTTPError):  # the answer to a shutdown
            for event in map(json.loads, events):
                if not is_judged(event["object"]):
                    self._judge_newest(event["object"]["metadata"]["name"])

    def objects(self) -> list[dict[str, Any]]:
        """The namespace's tables."""
        found: list[dict[str, Any]] = self._tables.plane.get(self._path)["items"]
        return found

    def _judge_newest(self, name: str) -> None:
        path = path_of("ct", name, self._tables.namespace)
        with suppress(NoSuchObject, Conflict):  # a table may be dropped or written before it is judged
            item = self._tables.plane.get(path)
            if not is_judged(item):
                self._tables.plane.patch_status(path, self._judgement(item), item["metadata"]["resourceVersion"])

    def _judgement(self, item: dict[str, Any]) -> dict[str, Any]:
        table = parse_table(item)
        found = memberships(Observation(datetime.now(UTC), tables=(table,))).refusals.get(table.identity.uid)
        unsound = found.message if found and found.reason == Reason.INVALID_SPEC else ""
        message = unsound or self.refuse(item["spec"])
        reason = Reason.INVALID_SPEC if unsound else Reason.SCHEMA_MISMATCH
        condition = {"type": "Accepted", "status": "False", "reason": reason, "message": message}
        status = {
            "observedGeneration": item["metadata"]["generation"], "accepted": not message,
            "conditions": [condition] if message else [],
        }  # fmt: skip
        if not message and not table.is_being_replaced:
            status["columns"] = item["spec"]["columns"]
        return status


def is_judged(item: dict[str, Any]) -> bool:
    """Whether the operator has judged the table as it is specified now."""
    return bool(item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"])


@contextmanager
def running(operator: Operator) -> Iterator[None]:
    """The operator, in a thread."""
    events = operator.watch()
    thread = threading.Thread(target=operator.run, args=(events,))
    thread.start()
    try:
        yield
    finally:
        events.shutdown()
        thread.join()


@contextmanager
def judged_tables(
    plane: ControlPlane,
    agents: LoopbackAgents,
    namespace: str,
    buckets: tuple[tuple[str, ...], ...],
    refuse: Callable[[dict[str, Any]], str] = lambda spec: "",
) -> Iterator[ClusterTables]:
    """A namespace with group ``sales`` of this map, in which every table is accepted that is not refused."""
    made = ClusterTables(plane, agents, namespace)
    made.add_group("sales", ["bigint"], buckets)
    operator = Operator(made)
    operator.refuse = refuse
    with running(operator):
        yield made
