"""The queries of the last hour, from the logs of Spark's drivers whose pods are there, running or ended."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ...model.base import parse_time
from ...model.query_line import QueryLine, find_queries
from ...model.wording import counted
from ...submit.clients import LOG_LINES_READ, read_log_of
from ..cluster import Cluster
from ..errors import HTTP_FORBIDDEN, HTTP_NOT_FOUND, said_by

Json = dict[str, Any]
LEAST_SECONDS = 15.0
"""Between two readings: a log can have a megabyte."""
LOG_SECONDS = 5.0
"""For a kubelet to answer: that of a node that is down may not even refuse the connection."""
SILENT_SECONDS = 60.0
"""For this long a node whose kubelet did not answer is not asked again."""
MOST_DRIVERS = 20
MOST_SHOWN = 200
SHOWN = timedelta(hours=1)
HTTP_SERVER_ERROR = 500
HTTP_NOT_READY = 400
"""The API server has no log of a container that has not started."""
LOG_FORBIDDEN = "you have no right to read drivers' logs (get on pods/log)"


@dataclass(frozen=True)
class SeenQuery:
    """A query of a driver: its pod, in a namespace."""

    namespace: str
    driver: str
    query: QueryLine


@dataclass(frozen=True)
class SeenQueries:
    """What drivers' logs tell. ``gap``: why there may be more."""

    queries: tuple[SeenQuery, ...] = ()
    gap: str = ""


NO_QUERIES = SeenQueries()


@dataclass
class SilentNode:
    """A node whose kubelet did not answer, and why. ``drivers``: how many of this round are not read for that."""

    why: str
    ask_again_at: float
    drivers: int = 0

    def describe(self, node: str) -> str:
        """For people."""
        return (
            f"queries of {counted(self.drivers, 'driver')} on node {node} are not shown, as its kubelet gives no logs: "
            f"{self.why}; `colocation nodes` shows whether the node is down"
        )


class DriverLogs:
    """Reads the logs of the drivers that started last, and not too often.

    Args:
        cluster: the user's connection.
        everywhere: all namespaces; else the cluster's.
    """

    def __init__(self, cluster: Cluster, everywhere: bool) -> None:
        self._cluster = cluster
        self._everywhere = everywhere
        self._found = NO_QUERIES
        self._read_again_at = 0.0
        self._silent: dict[str, SilentNode] = {}

    def queries(self) -> SeenQueries:
        """What was found at most a few seconds ago.

        Raises:
            ApiException: the pods cannot be listed.
        """
        if time.monotonic() >= self._read_again_at:
            self._found = self._read()
            self._read_again_at = time.monotonic() + LEAST_SECONDS
        return self._found

    def _read(self) -> SeenQueries:
        drivers = self._cluster.all_spark_drivers() if self._everywhere else self._cluster.spark_drivers()
        newest = sorted(drivers, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), reverse=True)
        now = time.monotonic()
        self._silent = {node: one for node, one in self._silent.items() if one.ask_again_at > now}
        for silent in self._silent.values():
            silent.drivers = 0
        gaps = list[str]()
        queries = tuple(one for pod in newest[:MOST_DRIVERS] for one in self._queries_of(pod, gaps))
        gaps += [one.describe(node) for node, one in self._silent.items() if one.drivers]
        more = len(newest) - MOST_DRIVERS
        older = f"{more} older drivers are not looked at" if more > 0 else ""
        return SeenQueries(queries, gaps[0] if gaps else older)

    def _queries_of(self, pod: Json, gaps: list[str]) -> Iterator[SeenQuery]:
        namespace, driver = str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])
        node = str(pod["spec"].get("nodeName") or "")
        if node in self._silent:
            self._silent[node].drivers += 1
            return
        try:
            log = read_log_of(self._cluster.connection, pod, LOG_LINES_READ, LOG_SECONDS)
        except HTTPError:
            self._note_silence(node, f"no answer within {LOG_SECONDS:g} s")
            return
        except ApiException as error:
            if error.status == HTTP_FORBIDDEN:
                gaps.append(LOG_FORBIDDEN)
            elif (error.status or 0) >= HTTP_SERVER_ERROR:
                self._note_silence(node, said_by(error))
            elif error.status not in (HTTP_NOT_READY, HTTP_NOT_FOUND):
                gaps.append(f"the log of {namespace}/{driver} cannot be read: {said_by(error)}")
            return
        yield from (SeenQuery(namespace, driver, one) for one in find_queries(log))

    def _note_silence(self, node: str, why: str) -> None:
        self._silent[node] = SilentNode(why, time.monotonic() + SILENT_SECONDS, drivers=1)


def shown_queries(queries: Sequence[SeenQuery], now: datetime) -> list[Json]:
    """Those that ended within the last hour, the newest first, as the page shows them. Drivers' clocks are believed."""
    ended = [(parse_time(one.query.ended_at), one) for one in queries]
    recent = [(time, one) for time, one in ended if time and now - time <= SHOWN]
    return [_shown(one) for _, one in sorted(recent, key=lambda pair: pair[0], reverse=True)[:MOST_SHOWN]]


def _shown(seen: SeenQuery) -> Json:
    verdicts = seen.query.verdicts
    return {
        "namespace": seen.namespace,
        "driver": seen.driver,
        **seen.query.to_json_dict(),
        "shuffled": not all(one.colocate for one in verdicts),
    }
