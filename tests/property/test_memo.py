"""A decision with the memo of those before equals one without, whatever has happened in between.

Random histories find much, but seldom the one change that a part of the memo alone has to notice. So every state that
they lead to is also compared with all that differ from it in one thing only.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pytest

from benchmarks import control_plane_objects as objects
from colocation.model.agent import AgentReport, AskedTable, BucketReport, ReplicaState, TableReport
from colocation.model.names import table_directory
from colocation.model.snapshot import Limits
from colocation.reconcile.actions import RemoveClone, StartClone, WriteGroupStatus, WriteTableStatus
from colocation.reconcile.decide import Decision, decide
from colocation.reconcile.evidence import Evidence
from colocation.reconcile.policy import Policy
from colocation.state.agent_view import AgentView
from colocation.state.memo import Memo
from colocation.state.objects import DroppedTable, Identity, ObservedCloneJob, ObservedGroup, ObservedTable
from colocation.state.observation import Observation
from colocation.state.parse import parse_agent, parse_group, parse_node, parse_table

Json = dict[str, Any]
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
POLICY = Policy(Limits(), agent_grace_seconds=30, garbage_grace_seconds=3600)
NODES = ("node-1", "node-2", "node-3", "node-4")
GROUPS = ("sales", "stock")
COLUMNS = (objects.COLUMNS, [*objects.COLUMNS, {"name": "more", "type": "int"}])
STEPS = 60


class Cluster:
    """Objects as JSON, parsed again whenever they change; agents' words; all changed at random."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now, self.version, self.made = START, 1, 0
        self.groups: dict[str, Json] = {}
        self.tables: dict[str, Json] = {}
        self.parsed: dict[tuple[str, str], ObservedGroup | ObservedTable] = {}
        self.nodes = dict.fromkeys(NODES, True)
        self.labels: dict[str, dict[str, str]] = {name: {} for name in NODES}
        self.views: dict[str, AgentView] = {}
        self.bytes: dict[tuple[str, str, str], dict[int, int]] = {}
        self.jobs: dict[str, ObservedCloneJob] = {}
        self.dropped: dict[str, DroppedTable] = {}
        self.seen: dict[str, datetime] = {}
        for name in GROUPS:
            self.add_group(name)
        for _ in range(4):
            self.add_table()
        for name in self.random.sample(NODES, self.random.randint(0, len(NODES))):
            self.answer(name)

    def observation(self) -> Observation:
        """What an operator sees."""
        agents = [
            parse_agent(self._made({**objects.pod_body(name), **objects.pod_status(number)}, f"pod-{name}"))
            for number, name in enumerate(NODES)
        ]
        bodies = [
            {"metadata": {"name": name, "labels": self.labels[name]}, **objects.node_status(ready)}
            for name, ready in self.nodes.items()
        ]
        return Observation(
            now=self.now,
            groups=tuple(self._parsed("group", self.groups)),
            tables=tuple(self._parsed("table", self.tables)),
            nodes=tuple(map(parse_node, bodies)),
            agents=tuple(agent for agent in agents if agent),
            clone_jobs=tuple(self.jobs.values()),
            agent_views=dict(self.views),
            bucket_bytes=dict(self.bytes),
            dropped_tables=dict(self.dropped),
            namespace_uids={"shop": "12345678-0000"},
            ca_certificate="certificate",
            started_at=START,
            snapshots_seen_at=dict(self.seen),
        )

    def apply(self, decision: Decision) -> None:
        """Most writes of statuses, and clone Jobs."""
        for scope in decision.scopes:
            for action in scope.actions:
                if self.random.random() < 0.2:
                    continue
                match action:
                    case WriteGroupStatus(group, status):
                        self.patch(self.groups, group.name, dict(status))
                    case WriteTableStatus(table, status):
                        self.patch(self.tables, table.name, dict(status))
                    case StartClone(name, spec):
                        self.version += 1
                        identity = Identity(objects.SYSTEM, name, f"job-{self.version}", str(self.version), 1, self.now)
                        job = (identity, spec.namespace, spec.group, spec.bucket, action.source, spec.target)
                        self.jobs[name] = ObservedCloneJob(*job, action.failures, "running", self.now, None)
                    case RemoveClone(job_identity):
                        self.jobs.pop(job_identity.name, None)
                    case _:
                        pass

    def change(self) -> None:
        """One thing happens."""
        often = (self.commit, self.answer_of_one, self.wait)
        seldom = (
            self.silence, self.turn_node, self.label, self.size, self.end_job, self.add_table, self.drop_table,
            self.move_table, self.forge, self.spec_of_group, self.change_of_group, self.replace_group,
        )  # fmt: skip
        happenings: tuple[Callable[[], None], ...] = (*often * 4, *seldom)
        self.random.choice(happenings)()

    def add_group(self, name: str) -> None:
        body = objects.group_body("shop", name)
        self.groups[name] = self._made({**body, "status": {}}, self._uid())

    def replace_group(self) -> None:
        name = self.random.choice(GROUPS)
        if self.random.random() < 0.5:
            self.groups.pop(name, None)
        else:
            self.add_group(name)

    def add_table(self) -> None:
        name = f"table-{self.random.randint(1, 6)}"
        if name not in self.tables:
            body = objects.table_body("shop", name, self.random.choice(GROUPS))
            self.tables[name] = self._made({**body, "status": {}}, self._uid())

    def drop_table(self) -> None:
        if self.tables:
            name = self.random.choice(sorted(self.tables))
            table = parse_table(self.tables.pop(name))
            self.dropped[table.identity.uid] = DroppedTable(table, self.now)

    def move_table(self) -> None:
        if self.tables:
            spec: Json = {"colocateWith": self.random.choice((*GROUPS, "other", ""))}
            self.respec(self.tables, self.random.choice(sorted(self.tables)), spec)

    def spec_of_group(self) -> None:
        if self.groups:
            spec: Json = self.random.choice(({"replicas": 1}, {"replicas": 2}, {"nodeSelector": {"disk": "fast"}}, {}))
            self.respec(self.groups, self.random.choice(sorted(self.groups)), {"nodeSelector": {}, **spec})

    def change_of_group(self) -> None:
        """Its status only: as an older operator, or a user, left it."""
        if self.groups:
            status: Json = self.random.choice(({"members": []}, {"stable": None}, {"recycled": []}, {"conditions": []}))
            self.patch(self.groups, self.random.choice(sorted(self.groups)), status)

    def forge(self) -> None:
        """A tenant writes into a table's status."""
        if self.tables:
            status: Json = self.random.choice(
                (
                    {"group": "stock"},
                    {"replicas": 7},
                    {"replicas": None},
                    {"columns": COLUMNS[1]},
                    {"snapshot": {"id": "x"}},
                    {"history": []},
                )
            )
            self.patch(self.tables, self.random.choice(sorted(self.tables)), status)

    def commit(self) -> None:
        if not self.tables:
            return
        body = self.tables[self.random.choice(sorted(self.tables))]
        uid, before = body["metadata"]["uid"], body["status"].get("snapshot") or {}
        known = before.get("id", 0)
        number = known + 1 if isinstance(known, int) else 1
        at = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        status: Json = {"snapshot": objects.snapshot_of_load(uid, number, at)}
        if number > 1:
            status["history"] = [before, *body["status"].get("history", ())][:3]
        self.patch(self.tables, body["metadata"]["name"], status)
        self.seen[uid] = self.now

    def answer_of_one(self) -> None:
        self.answer(self.random.choice(NODES))

    def answer(self, node: str) -> None:
        """The agent reports what it has, in which not everything is as it should be, of what it was asked just now."""
        view = self.views.get(node, AgentView())
        tables, asked = dict(view.tables), dict(view.asked)
        is_well = self.random.random() < 0.8
        for table in self._parsed("table", self.tables):
            if isinstance(table, ObservedTable) and (is_well or self.random.random() < 0.7):
                key = (table.identity.namespace, table.directory)
                asked[key] = AskedTable(reference=table.reference, uid=table.identity.uid)
                tables[key] = self._report(table, is_well)
        report = AgentReport(
            node=node, revision=str(self.version), instance=node, uptime_seconds=5, capacity_bytes=1000 * objects.GIB,
            free_bytes=900 * objects.GIB,
            unknown_directories=self.random.choice(((), (f"shop/{table_directory('gone', self._uid())}",))),
        )  # fmt: skip
        asked_at = self.now - timedelta(seconds=1)
        self.views[node] = AgentView(report, tables, asked, self.now, asked_at=asked_at)

    def silence(self) -> None:
        node = self.random.choice(NODES)
        self.views[node] = replace(self.views.get(node, AgentView()), silent_since=self.now)

    def size(self) -> None:
        """Another agent, no longer heard of, knew how large the buckets are."""
        if self.bytes:
            self.bytes[self.random.choice(sorted(self.bytes))] = {0: 5, 1: 0}

    def turn_node(self) -> None:
        node = self.random.choice(NODES)
        self.nodes[node] = not self.nodes[node]

    def label(self) -> None:
        labels = ({}, {"disk": "fast"}, {"colocation.dev/drain": "true"})
        self.labels[self.random.choice(NODES)] = self.random.choice(labels)

    def end_job(self) -> None:
        for name, job in self.jobs.items():
            phase = self.random.choice(("succeeded", "failed", "running"))
            self.jobs[name] = replace(job, phase=phase, finished_at=self.now)  # type: ignore[arg-type]

    def wait(self) -> None:
        self.now += timedelta(seconds=self.random.choice((1, 1, 5, 10, 40, 4000, 90_000)))

    def _report(self, table: ObservedTable, is_well: bool) -> TableReport:
        manifest = table.reference.manifest
        states = ("complete",) if is_well else ("complete", "complete", "partial", "corrupt", None)
        buckets: dict[int, BucketReport] = {}
        if manifest:
            self.bytes[table.identity.namespace, table.directory, manifest] = dict.fromkeys(range(objects.BUCKETS), 9)
            for bucket in range(objects.BUCKETS):
                state: ReplicaState | None = self.random.choice(states)  # type: ignore[assignment]
                buckets[bucket] = BucketReport(state, 1, int(state is not None), 9, 9 if state else 0)
        return TableReport(
            table.identity.namespace, table.directory, manifest, is_well or self.random.random() < 0.9, buckets,
            surplus_bytes=self.random.choice((0, 0, 5)), retained_missing=self.random.choice(((), (), (0, 1))),
        )  # fmt: skip

    def _parsed(self, kind: str, bodies: dict[str, Json]) -> Iterator[Any]:
        """Objects of one resource version are one object, as in the operator's stores."""
        for name, body in sorted(bodies.items()):
            key = (name, body["metadata"]["resourceVersion"])
            if key not in self.parsed:
                self.parsed[key] = parse_group(body) if kind == "group" else parse_table(body)
            yield self.parsed[key]

    def patch(self, bodies: dict[str, Json], name: str, status: Json) -> None:
        if name in bodies:
            merged = {**bodies[name]["status"], **status}
            bodies[name] = self._changed({**bodies[name], "status": merged})

    def respec(self, bodies: dict[str, Json], name: str, spec: Json) -> None:
        changed = self._changed({**bodies[name], "spec": {**bodies[name]["spec"], **spec}})
        changed["metadata"]["generation"] += 1
        bodies[name] = changed

    def _changed(self, body: Json) -> Json:
        self.version += 1
        return {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}

    def made_body(self, body: Json) -> Json:
        """As the API server gives it."""
        return self._made(body, self._uid())

    def _made(self, body: Json, uid: str) -> Json:
        self.version += 1
        made_at = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata = {"uid": uid, "resourceVersion": str(self.version), "creationTimestamp": made_at, "generation": 1}
        return {**body, "metadata": {**body["metadata"], **metadata}}

    def _uid(self) -> str:
        self.made += 1
        return f"{self.made:08x}-0000-4000-8000-000000000000"


@pytest.mark.parametrize("seed", range(40))
def test_memo_changes_nothing(seed: int) -> None:
    """Snapshot, plan, actions and errors are the same."""
    cluster, evidence, memo = Cluster(Random(seed)), Evidence(), Memo()
    for step in range(STEPS):
        observation, collect = cluster.observation(), cluster.random.random() < 0.1
        remembered = decide(observation, evidence, POLICY, collect, memo)
        again = decide(observation, evidence, POLICY, collect)
        assert remembered.errors.keys() == again.errors.keys(), f"step {step}"
        assert replace(remembered, errors={}) == replace(again, errors={}), f"step {step}"
        if cluster.random.random() < 0.8:
            evidence = evidence.after(observation, (one for scope in again.scopes for one in scope.actions))
            cluster.apply(again)
        for _ in range(cluster.random.choice((0, 1, 1, 2))):
            cluster.change()


def differences(seen: Observation) -> Iterator[tuple[str, Observation]]:
    """What may be otherwise, in words -> the observation with that one difference."""
    for name, view in seen.agent_views.items():
        since = None if view.silent_since else seen.now
        yield f"voice of {name}", _with_view(seen, name, replace(view, silent_since=since))
        yield f"memory of {name}", _with_view(seen, name, replace(view, tables={}))
        for key, report in view.tables.items():
            for retained in ((), (0, 1)):
                shown = {**view.tables, key: replace(report, retained_missing=retained)}
                yield f"{key} on {name} lacks {retained}", _with_view(seen, name, replace(view, tables=shown))
    for number, node in enumerate(seen.nodes):
        yield f"readiness of {node.name}", _with(seen, "nodes", number, replace(node, ready=not node.ready))
    for number, group in enumerate(seen.groups):
        yield f"no {group.key}", _without(seen, "groups", number)
        for spec in ({"buckets": 4}, {"bucket_key": ("string",)}, {"replicas": 1}, {"replicas": 3}):
            assert group.spec is not None
            changed = replace(group, spec=group.spec.model_copy(update=spec))
            yield f"{spec} of {group.key}", _with(seen, "groups", number, changed)
        for status in ({"members": ()}, {"stable": None}, {"conditions": ()}, {"backends_per_bucket_seq": None}):
            changed = replace(group, status=group.status.model_copy(update=status))
            yield f"{status} of {group.key}", _with(seen, "groups", number, changed)
    for number, table in enumerate(seen.tables):
        yield f"no {table.identity.name}", _without(seen, "tables", number)
    yield "another group", replace(seen, groups=(*seen.groups, parse_group(_another("other", objects.group_body))))
    for buckets, name in ((8, "other"), (None, "sales")):
        yield f"another table of {name}", _with_newcomer(seen, name, buckets)


def _with(seen: Observation, field: str, number: int, one: object) -> Observation:
    all_of_them: tuple[Any, ...] = getattr(seen, field)
    changed: Json = {field: (*all_of_them[:number], one, *all_of_them[number + 1 :])}
    return replace(seen, **changed)


def _without(seen: Observation, field: str, number: int) -> Observation:
    all_of_them: tuple[Any, ...] = getattr(seen, field)
    changed: Json = {field: (*all_of_them[:number], *all_of_them[number + 1 :])}
    return replace(seen, **changed)


def _with_view(seen: Observation, node: str, view: AgentView) -> Observation:
    return replace(seen, agent_views={**seen.agent_views, node: view})


def _with_newcomer(seen: Observation, group: str, buckets: int | None) -> Observation:
    body = _another("newcomer", partial(objects.table_body, group=group))
    body["spec"] |= {"buckets": buckets, "replicas": 2 if buckets else None}
    return replace(seen, tables=(*seen.tables, parse_table(body)))


def _another(name: str, body: Callable[[str, str], Json]) -> Json:
    made = body("shop", name)
    metadata = {"uid": f"ffffffff-{name}", "resourceVersion": "9", "creationTimestamp": "2026-11-21T12:00:00Z"}
    return {**made, "metadata": {**made["metadata"], **metadata, "generation": 1}, "status": {}}


def settle(cluster: Cluster, memo: Memo, evidence: Evidence) -> None:
    """Write all statuses, until none changes any more: what is in a memo for long is from such states."""
    for _ in range(4):
        decision = decide(cluster.observation(), evidence, POLICY, False, memo)
        for scope in decision.scopes:
            for action in scope.actions:
                match action:
                    case WriteGroupStatus(group, status):
                        cluster.patch(cluster.groups, group.name, dict(status))
                    case WriteTableStatus(table, status):
                        cluster.patch(cluster.tables, table.name, dict(status))
                    case _:
                        pass


def check_differences(cluster: Cluster, evidence: Evidence, most: int) -> None:
    """The memo of the state as it is gives no wrong answer about any other one."""
    seen, memo = cluster.observation(), Memo()
    found = list(differences(seen))
    for what, other in cluster.random.sample(found, min(most, len(found))):
        decide(seen, evidence, POLICY, False, memo)
        assert decide(other, evidence, POLICY, False, memo) == decide(other, evidence, POLICY, False), what


@pytest.mark.parametrize("seed", range(8))
def test_memo_notices_every_single_difference(seed: int) -> None:
    """Errors aside, which no difference here provokes."""
    cluster, evidence, memo = Cluster(Random(seed)), Evidence(), Memo()
    for _ in range(2):
        for _ in range(cluster.random.randint(1, 12)):
            cluster.change()
        settle(cluster, memo, evidence)
        check_differences(cluster, evidence, 20)


def _loaded(cluster: Cluster) -> None:
    """One table with a retained snapshot; all that agents say is well."""
    cluster.tables.clear()
    body = objects.table_body("shop", "table-1", "sales")
    cluster.tables["table-1"] = cluster.made_body({**body, "status": {}})
    settle(cluster, Memo(), Evidence())
    for _ in range(2):
        cluster.commit()
    table = next(iter(cluster.observation().tables))
    for node in NODES:
        cluster.answer(node)
        view = cluster.views[node]
        key = (table.identity.namespace, table.directory)
        report = replace(view.tables[key], buckets=_whole(), manifest_present=True, retained_missing=())
        cluster.views[node] = replace(view, tables={key: report})
    settle(cluster, Memo(), Evidence())


def _whole() -> dict[int, BucketReport]:
    return dict.fromkeys(range(objects.BUCKETS), BucketReport("complete", 1, 1, 9, 9))


def last_holder_of_retained_files_falls_silent(cluster: Cluster) -> tuple[Observation, Observation]:
    """From then on no one has to have them."""
    _loaded(cluster)
    for node in NODES[1:]:
        view = cluster.views[node]
        tables = {key: replace(one, retained_missing=tuple(range(8))) for key, one in view.tables.items()}
        cluster.views[node] = replace(view, tables=tables)
    seen = cluster.observation()
    silent = replace(seen.agent_views[NODES[0]], silent_since=seen.now)
    return seen, _with_view(seen, NODES[0], silent)


def group_that_remembers_nothing_changes(cluster: Cluster) -> tuple[Observation, Observation]:
    """A table's own word about its group counts only while the group fits its files."""
    _loaded(cluster)
    cluster.patch(cluster.groups, "sales", {"members": []})
    seen = cluster.observation()
    return seen, _with_spec(seen, "sales", {"buckets": 4})


def group_to_which_a_table_moves_changes(cluster: Cluster) -> tuple[Observation, Observation]:
    """It may not fit any more."""
    _loaded(cluster)
    cluster.respec(cluster.tables, "table-1", {"colocateWith": "stock"})
    seen = cluster.observation()
    return seen, _with_spec(seen, "stock", {"bucket_key": ("string",)})


def node_is_lost_behind_another_one(cluster: Cluster) -> tuple[Observation, Observation]:
    """The bucket's reason stays that of the first node; the status has the state of each replica."""
    cluster.respec(cluster.groups, "sales", {"replicas": 3})
    _loaded(cluster)
    rows = [list(NODES[:3])] * objects.BUCKETS
    cluster.patch(cluster.groups, "sales", {"backendsPerBucketSeq": rows})
    cluster.nodes[NODES[0]] = False
    settle(cluster, Memo(), Evidence())
    seen = cluster.observation()
    return seen, _with(seen, "nodes", 1, replace(seen.nodes[1], ready=False))


def another_table_shows_what_a_missing_group_should_be(cluster: Cluster) -> tuple[Observation, Observation]:
    """Then no table that names the group is refused any more for its lack."""
    _loaded(cluster)
    members = [{**one, "replicas": None} for one in cluster.groups["sales"]["status"]["members"]]
    cluster.patch(cluster.groups, "sales", {"members": members})
    cluster.patch(cluster.tables, "table-1", {"replicas": None})
    cluster.respec(cluster.tables, "table-1", {"colocateWith": "other"})
    settle(cluster, Memo(), Evidence())
    seen = cluster.observation()
    return seen, _with_newcomer(seen, "other", 8)


def _with_spec(seen: Observation, name: str, spec: Json) -> Observation:
    number = next(number for number, group in enumerate(seen.groups) if group.identity.name == name)
    group = seen.groups[number]
    assert group.spec is not None
    return _with(seen, "groups", number, replace(group, spec=group.spec.model_copy(update=spec)))


CORNERS = (
    last_holder_of_retained_files_falls_silent, group_that_remembers_nothing_changes,
    group_to_which_a_table_moves_changes, node_is_lost_behind_another_one,
    another_table_shows_what_a_missing_group_should_be,
)  # fmt: skip


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: corner.__name__)
def test_memo_notices_what_one_input_alone_tells(
    corner: Callable[[Cluster], tuple[Observation, Observation]],
) -> None:
    """Each case is of one input of one part: without it the answer for the state before is given for the one after."""
    before, after = corner(Cluster(Random(1)))
    memo = Memo()
    for _ in range(2):
        known = decide(before, Evidence(), POLICY, False, memo)
    again = decide(after, Evidence(), POLICY, False)
    assert decide(after, Evidence(), POLICY, False, memo) == again
    assert again != known
