"""A bare API server for benchmarks: objects in bulk, and who asked it for what, from its audit log."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from tests.integration.control_plane import TOKEN, ControlPlane, running_control_plane

Json = dict[str, Any]
Given = TypeVar("Given")
Found = TypeVar("Found")
THREADS = 8
ETCD_TIMED_OUT, EXISTS = 500, 409
RETRY_SECONDS = 5.0
MERGE_PATCH = "application/merge-patch+json"
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata, users: ["%s"]}, {level: None}]
"""
"""Watches count when they end, or not at all: they are not requests that come again and again."""


class ApiServer:
    """The API server, to an administrator.

    Args:
        plane: the running control plane.
        audit_log: where it writes what the audited user asked for.
    """

    def __init__(self, plane: ControlPlane, audit_log: Path) -> None:
        self.plane = plane
        self.is_running = True
        self._audit_log = audit_log
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._pool = urllib3.PoolManager(cert_reqs="CERT_NONE", maxsize=THREADS)
        self._headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """One request; its JSON answer. A patch is a merge patch. What etcd was too slow for is sent again.

        Raises:
            RuntimeError: it was refused.
        """
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        content = json.dumps(body).encode() if body is not None else None
        headers = {**self._headers, "Content-Type": kind}
        answer = self._pool.request(method, self.plane.url + path, body=content, headers=headers)
        if answer.status == ETCD_TIMED_OUT:
            time.sleep(RETRY_SECONDS)
            answer = self._pool.request(method, self.plane.url + path, body=content, headers=headers)
            if answer.status == EXISTS and body is not None:  # it was carried out all the same
                return self.request("GET", f"{path}/{body['metadata']['name']}")
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.data[:500]!r}")
        found: Json = json.loads(answer.data)
        return found

    def request_all(self, requests: Iterable[tuple[str, str, Json]]) -> list[Json]:
        """Many requests, some at a time; their answers in the same order."""
        return self.map_all(lambda one: self.request(*one), requests)

    def map_all(self, function: Callable[[Given], Found], items: Iterable[Given]) -> list[Found]:
        """A function that sends requests, for many things, some at a time; what it found in the same order."""
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(function, items))

    def watch(self, path: str, version: str) -> Iterator[Json]:
        """The events of a watch, for as long as it lasts: nothing is heard for a minute, or the server ends."""
        url = f"{self.plane.url}{path}?watch=true&resourceVersion={version}"
        try:
            answer = self._pool.request("GET", url, headers=self._headers, preload_content=False, timeout=60)
        except urllib3.exceptions.HTTPError:
            return
        try:
            for line in answer:
                yield json.loads(line)
        except urllib3.exceptions.HTTPError:
            return
        finally:
            answer.close()

    def audited(self) -> Counter[str]:
        """How often the audited user has asked: by '<verb> <resource>/<subresource>'."""
        counts: Counter[str] = Counter()
        for line in self._audit_log.read_text().splitlines():
            event = json.loads(line)
            what = event.get("objectRef") or {}
            resource = what.get("resource") or event["requestURI"].partition("?")[0]
            counts["/".join(filter(None, [f"{event['verb']} {resource}", what.get("subresource")]))] += 1
        return counts

    def watch_events(self, resources: Iterable[str]) -> int:
        """How many watch events of these resources have been sent so far, to whomever."""
        answer = self._pool.request("GET", f"{self.plane.url}/metrics", headers=self._headers)
        names = tuple(f'resource="{name}"' for name in resources)
        lines = answer.data.decode().splitlines()
        counts = [line for line in lines if line.startswith("apiserver_watch_events_total{")]
        return int(sum(float(line.rpartition(" ")[2]) for line in counts if any(name in line for name in names)))


@contextmanager
def running_apiserver(folder: Path, audited_user: str) -> Iterator[ApiServer]:
    """An API server that logs what one user asks for."""
    policy, log = folder / "audit-policy.yaml", folder / "audit.log"
    policy.write_text(AUDIT_POLICY % audited_user)
    log.touch()
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking")
    with running_control_plane(*flags) as plane:
        server = ApiServer(plane, log)
        try:
            yield server
        finally:
            server.is_running = False
