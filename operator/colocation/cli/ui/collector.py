"""Asks the API server and the operator for the page, with the user's rights, and not too often."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ...model.snapshot import Snapshot
from ...planner import preview
from ..cluster import Cluster
from ..errors import HTTP_FORBIDDEN, CommandFailed, said_by
from ..inspect.objects import verdict_freshness
from ..port_forward import fetch_snapshot
from .content import Findings
from .queries import DriverLogs, SeenQueries

LEAST_SECONDS = 2.0
"""Between two rounds of questions."""
SHARE_OF_TIME = 5
"""The pause after a round is this many times as long as the round."""
Answer = TypeVar("Answer")


class Collector:
    """Answers from what was read last, and reads again after a pause.

    Args:
        cluster: the user's connection.
        operator_namespace: where the operator runs.
        everywhere: all namespaces; else the cluster's.
    """

    def __init__(self, cluster: Cluster, operator_namespace: str, everywhere: bool) -> None:
        self._cluster = cluster
        self._operator_namespace = operator_namespace
        self._everywhere = everywhere
        self._lock = threading.Lock()
        self._found: Findings | None = None
        self._ask_again_at = 0.0
        self._logs = DriverLogs(cluster, everywhere)

    def findings(self) -> Findings:
        """What was found at most a few seconds ago.

        Raises:
            CommandFailed: the groups cannot be read.
        """
        with self._lock:
            if self._found is None or time.monotonic() >= self._ask_again_at:
                began = time.monotonic()
                self._found = self._ask()
                took = time.monotonic() - began
                self._ask_again_at = time.monotonic() + max(LEAST_SECONDS, SHARE_OF_TIME * took)
            return self._found

    def _ask(self) -> Findings:
        cluster, problems = self._cluster, list[str]()
        try:
            groups = cluster.all_groups() if self._everywhere else cluster.groups()
            freshness = verdict_freshness(cluster, groups)
        except (ApiException, HTTPError) as error:
            raise CommandFailed(f"the API server does not list the groups: {_cause(error)}") from error
        everywhere = self._everywhere
        if not groups and not everywhere:
            cluster.check_namespace()
        tables = _tried("tables", problems, cluster.all_tables if everywhere else cluster.tables) or []
        ask_events = cluster.all_events_of_groups if everywhere else cluster.events_of_groups
        events = _tried("events", problems, ask_events) or []
        snapshot = self._snapshot(problems)
        plan = _tried("plan", problems, lambda: preview(snapshot)) if snapshot else None
        queries = _tried("queries", problems, self._logs.queries) or SeenQueries(gap="see the top of the page")
        return Findings(
            now=datetime.now(UTC).isoformat(timespec="seconds"),
            groups=groups,
            tables=tables,
            events=events,
            snapshot=snapshot,
            plan=plan,
            freshness=freshness,
            queries=queries,
            problems=tuple(problems),
        )

    def _snapshot(self, problems: list[str]) -> Snapshot | None:
        connection, namespace = self._cluster.connection, self._operator_namespace
        what = "nodes, copies, plans and details of replicas"
        return _tried(what, problems, lambda: fetch_snapshot(connection, namespace))


NO_RIGHT = "you have no right to read them; colocation doctor lists the roles"


def _tried(what: str, problems: list[str], ask: Callable[[], Answer]) -> Answer | None:
    try:
        return ask()
    except (ApiException, HTTPError, CommandFailed, ValueError) as error:
        problems.append(f"{what} cannot be shown: {_cause(error)}")
        return None


def _cause(error: Any) -> str:
    if isinstance(error, ApiException) and error.status == HTTP_FORBIDDEN:
        return NO_RIGHT
    return said_by(error)
