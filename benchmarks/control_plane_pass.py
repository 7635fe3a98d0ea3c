"""Measures the pure part of a pass at full size, without an API server: `python -m benchmarks.control_plane_pass`.

Builds what the operator would have observed of the benchmark's cluster, lets it decide until nothing is left to do, and
then times a pass after one table's commit, `--profile` with the functions that took longest.
"""

import argparse
import cProfile
import pstats
import resource
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from colocation.controller.settings import Settings
from colocation.model.agent import AgentReport, AskedTable, BucketReport, TableReport
from colocation.reconcile.actions import WriteGroupStatus, WriteTableStatus
from colocation.reconcile.decide import Decision, decide
from colocation.reconcile.evidence import Evidence
from colocation.reconcile.policy import Policy
from colocation.state.agent_view import AgentView
from colocation.state.memo import Memo
from colocation.state.observation import Observation
from colocation.state.parse import parse_agent, parse_group, parse_node, parse_table

from . import control_plane_objects as objects
from .control_plane_objects import BUCKETS, GIB, PARTITIONS, ClusterSize, Json

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


class OfflineCluster:
    """The objects of the benchmark's cluster, and the observation of them."""

    def __init__(self, size: ClusterSize) -> None:
        self.size = size
        self.version = 1
        self.bodies: dict[tuple[str, str, str], Json] = {}
        for number, (namespace, name) in enumerate(size.group_keys):
            self._add("group", objects.group_body(namespace, name), objects.placed_status(size, number))
            for table in size.tables_of(number):
                body = objects.table_body(namespace, table, name)
                uid = self._uid("table", namespace, table)
                self._add("table", body, objects.accepted_status(uid, name))
        self.groups = {key: parse_group(body) for key, body in self.bodies.items() if key[0] == "group"}
        self.tables = {key: parse_table(body) for key, body in self.bodies.items() if key[0] == "table"}
        labels = objects.labels_by_node(size)
        self.nodes = tuple(
            parse_node({**objects.node_body(name, labels[name]), **objects.node_status()}) for name in size.node_names
        )
        pods = [
            parse_agent(self._made({**objects.pod_body(name), **objects.pod_status(number)}, f"pod-{number}"))
            for number, name in enumerate(size.node_names)
        ]
        self.agents = tuple(pod for pod in pods if pod is not None)
        self.snapshots = dict.fromkeys(self.tables, 1)
        self.bytes: dict[tuple[str, str, str], dict[int, int]] = {}
        self.views = {
            name: AgentView(self._header(name), {}, {}, answered_at=START, asked_at=START) for name in size.node_names
        }
        for number, (namespace, _) in enumerate(size.group_keys):
            for table in size.tables_of(number):
                self._answer(number, namespace, table)

    def observation(self, now: datetime) -> Observation:
        return Observation(
            now=now,
            groups=tuple(self.groups.values()),
            tables=tuple(self.tables.values()),
            nodes=self.nodes,
            agents=self.agents,
            agent_views=dict(self.views),
            bucket_bytes=dict(self.bytes),
            namespace_uids={name: f"{name}-uid" for name in self.size.namespaces},
            ca_certificate="certificate",
            version=self.version,
        )

    def apply(self, decision: Decision) -> int:
        """Make the status writes; how many there were."""
        writes = 0
        for scope in decision.scopes:
            for action in scope.actions:
                if isinstance(action, WriteGroupStatus | WriteTableStatus):
                    kind = "group" if isinstance(action, WriteGroupStatus) else "table"
                    subject = action.group if isinstance(action, WriteGroupStatus) else action.table
                    key = (kind, subject.namespace, subject.name)
                    self._patch(key, dict(action.status))
                    writes += 1
        return writes

    def commit(self, group: int, table: str) -> None:
        """A load, and the answers of the agents that have its files."""
        namespace, _ = self.size.group_keys[group]
        key = ("table", namespace, table)
        self.snapshots[key] += 1
        uid = self.bodies[key]["metadata"]["uid"]
        self._patch(key, {"snapshot": objects.snapshot_of_load(uid, self.snapshots[key])})
        self._answer(group, namespace, table)

    def _answer(self, group: int, namespace: str, table: str) -> None:
        """What the agents of the group's nodes say of a table, now that its files are there."""
        observed = self.tables["table", namespace, table]
        reference = observed.reference
        assert reference.manifest is not None
        asked = AskedTable(reference=reference, uid=observed.identity.uid, map_version=1)
        key = (namespace, reference.directory)
        self.bytes[namespace, reference.directory, reference.manifest] = dict.fromkeys(range(BUCKETS), GIB)
        whole = BucketReport(
            state="complete", files_wanted=PARTITIONS, files_held=PARTITIONS, bytes_wanted=GIB, bytes_held=GIB
        )
        for node, buckets in objects.buckets_by_node(self.size, group):
            report = TableReport(
                namespace=namespace, directory=reference.directory, manifest=reference.manifest, manifest_present=True,
                buckets=dict.fromkeys(buckets, whole),
            )  # fmt: skip
            view = self.views[node]
            self.views[node] = replace(view, tables={**view.tables, key: report}, asked={**view.asked, key: asked})

    def _patch(self, key: tuple[str, str, str], status: Json) -> None:
        self.version += 1
        body = self.bodies[key]
        body = {**body, "status": {**body["status"], **status}}
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.version)}
        self.bodies[key] = body
        if key[0] == "group":
            self.groups[key] = parse_group(body)
        else:
            self.tables[key] = parse_table(body)

    def _header(self, node: str) -> AgentReport:
        return AgentReport(node=node, revision="1", capacity_bytes=1000 * GIB, free_bytes=500 * GIB)

    def _uid(self, kind: str, namespace: str, name: str) -> str:
        number = int(name.rpartition("-")[2])
        return f"{number:08x}-{1 if kind == 'group' else 2:04x}-4000-8000-{number:012x}"

    def _made(self, body: Json, uid: str) -> Json:
        metadata = {
            **body["metadata"], "uid": uid, "resourceVersion": "1", "creationTimestamp": objects.COMMITTED_AT,
            "generation": 1,
        }  # fmt: skip
        return {**body, "metadata": metadata}

    def _add(self, kind: str, body: Json, status: Json) -> None:
        metadata = body["metadata"]
        uid = self._uid(kind, metadata["namespace"], metadata["name"])
        self.bodies[kind, metadata["namespace"], metadata["name"]] = self._made({**body, **status}, uid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--tables", type=int, default=20000)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--lines", type=int, default=45)
    given = parser.parse_args()
    started = time.process_time()
    cluster = OfflineCluster(ClusterSize(given.nodes, given.groups, given.tables))
    print(f"objects made in {time.process_time() - started:.1f} s, {rss_mib()} MiB", flush=True)
    policy = Settings(namespace=objects.SYSTEM, image="image").policy
    evidence, memo, now = Evidence(), Memo(), START
    for number in range(4):
        now += timedelta(seconds=5)
        seconds, decision = timed(cluster, evidence, policy, memo, now, given.profile and number == 0, given.lines)
        evidence = after(evidence, cluster.observation(now), decision)
        writes = cluster.apply(decision)
        print(f"pass {number}: {seconds:.2f} s, {writes} writes, {rss_mib()} MiB", flush=True)
        if not writes:
            break
    for number in range(3):
        group = number * 7 % given.groups
        cluster.commit(group, cluster.size.tables_of(group)[0])
        now += timedelta(seconds=5)
        seconds, decision = timed(cluster, evidence, policy, memo, now, given.profile and number == 2, given.lines)
        evidence = after(evidence, cluster.observation(now), decision)
        print(f"after a commit: {seconds:.2f} s, {cluster.apply(decision)} writes", flush=True)


def timed(
    cluster: OfflineCluster, evidence: Evidence, policy: Policy, memo: Memo, now: datetime, profile: bool, lines: int
) -> tuple[float, Decision]:
    observation = cluster.observation(now)
    profiler = cProfile.Profile()
    started = time.process_time()
    if profile:
        profiler.enable()
    decision = decide(observation, evidence, policy, False, memo)
    profiler.disable()
    seconds = time.process_time() - started
    if profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(lines)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(lines)
    return seconds, decision


def after(evidence: Evidence, observation: Observation, decision: Decision) -> Evidence:
    return evidence.after(observation, (one for scope in decision.scopes for one in scope.actions))


def rss_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
