"""No object, whatever somebody stored in it, stops a parser, and what is bad of it hides nothing else."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.model.table import ColocatedTableStatus, Retention, retained_history
from colocation.state.membership import memberships
from colocation.state.observation import Observation
from colocation.state.parse import parse_agent, parse_clone_error, parse_clone_job, parse_group, parse_node, parse_table

from .objects import NOW
from .test_parse import ended, job, metadata

Json = Any

TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["soon", "2026-11-21T00:00:00", "0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00", "-1"]),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.sampled_from([2**53, 2**63, -1, 10**400, 10**9])
)
JSON: st.SearchStrategy[Json] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)

SNAPSHOT = {
    "id": 2, "manifest": f"sha256:{2:064x}", "committedAt": "2026-11-21T02:00:00Z", "partitions": 1, "files": 2,
    "rows": 10, "bytes": 100,
}  # fmt: skip
REPLACED = {**SNAPSHOT, "id": 1, "manifest": f"sha256:{1:064x}", "committedAt": "2026-11-21T01:00:00.25+02:00"}
CONDITION = {"type": "Ready", "status": "True", "reason": "Reconciled", "lastTransitionTime": "2026-11-21T00:00:00Z"}
TABLE = {
    "metadata": metadata(labels={"a": "b"}, annotations={"colocation.dev/recovers": "1"}, generation=3),
    "spec": {
        "colocateWith": "sales", "columns": [{"name": "k", "type": "bigint"}], "bucketedBy": ["k"], "buckets": 2,
        "retention": {"seconds": 10**11, "snapshots": 100}, "recycleAfterSeconds": 10**11,
    },
    "status": {
        "accepted": True, "group": "sales", "groupId": "1.2", "buckets": 2, "replicas": 2, "observedGeneration": 3,
        "columns": [{"name": "k", "type": "bigint"}], "snapshot": SNAPSHOT, "history": [REPLACED, REPLACED],
        "commits": [{"writer": "stream", "version": 7, "snapshotId": 2}], "conditions": [CONDITION],
    },
}  # fmt: skip
MEMBER = {"namespace": "shop", "name": "orders", "uid": "12345678-uid", "snapshot": SNAPSHOT}
DROPPED = {**MEMBER, "deletedAt": "2026-11-21T00:00:00Z", "purgeAt": "2026-11-22T00:00:00Z", "recoveryUids": ["u"]}
GROUP = {
    "metadata": metadata(name="sales", annotations={"recover.colocation.dev/12345678": ""}, labels={}),
    "spec": {"bucketKey": ["bigint"], "buckets": 2, "replicas": 2, "allowedNamespaces": ["*"]},
    "status": {
        "stable": False, "backendsPerBucketSeq": [["a", "b"], ["a", "b"]], "mapVersion": 3, "members": [MEMBER],
        "recycled": [DROPPED], "deleteAfter": "2026-11-22T00:00:00Z", "conditions": [CONDITION],
        "unstableBuckets": [{"bucket": 1, "reason": "NodeGone", "since": "2026-11-21T00:00:00Z"}],
        "clones": {"running": 1, "counted": ["u"]},
        "failingTargets": [{"node": "a", "failures": 5, "retryAt": "2026-11-21T00:00:00Z"}],
    },
}  # fmt: skip
NODE = {
    "metadata": metadata(labels={"a": "b"}),
    "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"conditions": [CONDITION]},
}
POD = {
    "metadata": metadata(),
    "spec": {"nodeName": "node-1", "containers": [{"ports": [{"containerPort": 8440, "hostPort": 8440}]}]},
    "status": {"podIP": "10.0.0.1", "hostIP": "192.0.2.1"},
}
PARSERS: dict[Callable[[Json], object], Json] = {
    parse_table: TABLE, parse_group: GROUP, parse_node: NODE, parse_agent: POD,
    parse_clone_error: {
        "metadata": {"ownerReferences": [{"kind": "Job", "uid": "u"}]},
        "status": {
            "containerStatuses": [
                {"state": {"terminated": {"exitCode": 1, "message": '{"error": 1}'}}},
                {"state": {"waiting": {"reason": "ErrImagePull", "message": "gone"}}},
            ],
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}],
            "phase": "Failed", "reason": "Evicted", "message": "no memory",
        },
    },
    parse_clone_job: job({**ended("Failed"), "active": 1, "ready": 1, "startTime": "2026-11-21T00:00:00Z"}),
}  # fmt: skip


def paths(value: Json, path: tuple[Json, ...] = ()) -> Iterator[tuple[Json, ...]]:
    """The way to every part of a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from paths(part, (*path, key))


def changed(body: Json, path: tuple[Json, ...], value: Json) -> Json:
    """A copy with another value at ``path``."""
    made = json.loads(json.dumps(body))
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: str(parse.__name__))
@settings(deadline=None)
@given(data=st.data())
def test_no_parser_raises(parse: Callable[[Json], object], data: st.DataObject) -> None:
    """Neither on any JSON object, nor on one of ours of which any part is something else."""
    parse(data.draw(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON)))
    body = PARSERS[parse]
    parse(changed(body, data.draw(st.sampled_from(list(paths(body)))), data.draw(JSON)))


@settings(deadline=None)
@given(st.sampled_from([path for path in paths(TABLE) if path[0] == "status" and len(path) > 1]), JSON)
def test_bad_status_harms_its_table_alone(path: tuple[Json, ...], value: Json) -> None:
    """The other fields are kept, the message is short and plain, and every later step gets on with what is left."""
    bad = parse_table(changed(TABLE, path, value))
    good = parse_table(changed(TABLE, ("metadata", "uid"), "87654321-uid"))
    group = parse_group(GROUP)

    assert bad.status_error.isascii() and len(bad.status_error) <= 1000
    assert good.status_error == ""
    for name in ColocatedTableStatus.model_fields:
        field = ColocatedTableStatus.model_fields[name]
        if (field.alias or name) != path[1]:
            assert getattr(bad.status, name) == getattr(good.status, name)

    found = memberships(Observation(NOW, groups=(group,), tables=(bad, good)))
    assert good.identity.uid not in found.refusals
    json.dumps(bad.status.model_dump(mode="json", by_alias=True))
    if bad.status.snapshot:
        retained_history(bad.status.snapshot, bad.status.history, Retention(), NOW)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        pytest.param(
            ("snapshot", "manifest"), "x",
            'status.snapshot.manifest is "x": allowed is sha256: followed by 64 hexadecimal digits in lower case',
            id="manifest",
        ),
        pytest.param(
            ("history", 0, "committedAt"), "soon",
            'status.history.0.committedAt is "soon": allowed is a time of RFC 3339 with a time zone, '
            "e.g. 2026-11-21T00:00:00Z",
            id="no time",
        ),
        pytest.param(
            ("snapshot", "committedAt"), "2026-11-21T00:00:00",
            'status.snapshot.committedAt is "2026-11-21T00:00:00": allowed is a time of RFC 3339 with a time zone, '
            "e.g. 2026-11-21T00:00:00Z",
            id="time without a zone",
        ),
        pytest.param(
            ("snapshot", "rows"), -1, "status.snapshot.rows is -1: Input should be greater than or equal to 0",
            id="negative",
        ),
        pytest.param(
            ("snapshot", "bytes"), 2**53,
            "status.snapshot.bytes is 9007199254740992: Input should be less than or equal to 9007199254740991",
            id="beyond what JSON holds",
        ),
        pytest.param(
            ("history",), [REPLACED] * 101,
            "status.history is a list of 101: Tuple should have at most 100 items after validation, not 101",
            id="too many",
        ),
        pytest.param(
            ("commits", 0, "version"), -1, "status.commits.0.version is -1: Input should be greater than or equal to 0",
            id="version of a commit",
        ),
        pytest.param(
            ("commits", 0, "writer"), "w" * 129,
            f'status.commits.0.writer is "{"w" * 60}...": String should have at most 128 characters', id="long writer",
        ),
        pytest.param(("snapshot",), {"id": 1, "manifest": SNAPSHOT["manifest"]},
                     "status.snapshot.committedAt is missing", id="missing"),
    ],
)  # fmt: skip
def test_bad_status_reports_what_is_wrong(path: tuple[Json, ...], value: Json, message: str) -> None:
    """The field, what it holds, and what is allowed."""
    assert parse_table(changed(TABLE, ("status", *path), value)).status_error == message


def test_bad_entry_hides_no_good_ones() -> None:
    """Of a history, and of what a group remembers."""
    table = parse_table(changed(TABLE, ("status", "history", 0, "manifest"), "x"))
    assert [one.id for one in table.status.history] == [1]
    assert table.status.snapshot is not None
    group = parse_group(changed(GROUP, ("status", "members"), [MEMBER, {"uid": 3}]))
    assert [one.uid for one in group.status.members] == ["12345678-uid"]
    assert group.status.map_version == 3
    assert "status.members.1.namespace is missing" in group.status_error


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param(("labels", "colocation.dev/bucket", "x"), None, id="bucket that is no number"),
        pytest.param(("labels", "colocation.dev/bucket", "65536"), None, id="bucket out of range"),
        pytest.param(("labels", "colocation.dev/bucket", "-1"), None, id="negative bucket"),
        pytest.param(("annotations", "colocation.dev/failures", "many"), None, id="failures that are no number"),
        pytest.param(("annotations", "colocation.dev/failures", "9" * 5000), None, id="a number without end"),
        pytest.param(("annotations", "colocation.dev/failures", "1000000000"), 1001, id="absurd failures"),
        pytest.param(("annotations", "colocation.dev/failures", "3"), 4, id="ours"),
    ],
)
def test_jobs_made_by_others(change: tuple[str, str, str], found: int | None) -> None:
    """They carry our labels; their numbers wait for no power of two."""
    field, name, value = change
    body = changed(PARSERS[parse_clone_job], ("metadata", field, name), value)
    parsed = parse_clone_job(body)
    assert (parsed.failures if parsed else None) == found


@pytest.mark.parametrize(
    ("spec", "schedulable"),
    [
        pytest.param({}, True, id="ordinary"),
        pytest.param({"unschedulable": True}, False, id="cordoned"),
        pytest.param({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, False, id="tainted"),
        pytest.param({"taints": [{"key": "gpu", "effect": "NoExecute"}]}, False, id="tainted, evicting"),
        pytest.param({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}, True, id="a preference"),
        pytest.param({"taints": [{"key": "disk", "effect": "NoSchedule"}]}, True, id="tolerated"),
        pytest.param(
            {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}, True, id="not ready"
        ),
        pytest.param(
            {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}, True, id="unreachable"
        ),
        pytest.param({"taints": ["gpu", {"key": 3, "effect": None}], "unschedulable": "yes"}, True, id="nonsense"),
    ],
)
def test_nodes_that_take_new_replicas(spec: Json, schedulable: bool) -> None:
    """Neither cordoned ones nor those with a taint that is not tolerated; readiness is the Ready condition."""
    assert parse_node({"metadata": metadata(), "spec": spec}, {"disk"}).schedulable is schedulable
