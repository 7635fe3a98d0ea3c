"""`groups`, `tables`, `show`, `events`, `drain`, `undrain` over a cluster in memory."""

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes.client import ApiException

from colocation.cli.main import main
from colocation.cli.terminal import options
from colocation.model.reader_rules import Freshness

from ..conftest import FakeCluster, Run, group_object, table_object


def test_groups_as_columns(run: Run, cluster: FakeCluster) -> None:
    """One line per group, as kubectl prints it."""
    header, line = run("groups").stdout.splitlines()
    columns = ["NAME", "BUCKETS", "REPLICAS", "DISTCOLS", "TABLES", "STABLE", "REASON", "NODES", "CLONES"]
    assert header.split() == columns
    assert line.split() == ["sales", "2", "2", "bigint", "1", "true", "AllReplicasComplete", "2", "-"]


def test_stalled_groups_are_named_below_the_list(run: Run, cluster: FakeCluster) -> None:
    """Each cause once, with the first of the groups that have it."""

    def stalled(name: str, reason: str) -> dict[str, Any]:
        one = {"type": "Stalled", "status": "True", "reason": reason, "message": "add nodes",
               "lastTransitionTime": "2026-11-29T00:00:00Z"}  # fmt: skip
        return group_object(name, conditions=[one])

    causes = ["InsufficientNodes", "KindsOutdated"] + 4 * ["InsufficientNodes"]
    cluster.groups()[:] = [stalled(f"g{number}", cause) for number, cause in enumerate(causes)]
    cluster.groups().append(group_object("well"))
    assert run("groups").stdout.splitlines()[-3:] == [
        "", "g0, g2, g3, and 2 more groups: stalled: InsufficientNodes: add nodes",
        "g1: stalled: KindsOutdated: add nodes",
    ]  # fmt: skip


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
@pytest.mark.parametrize("command", ["groups", "tables"])
def test_lists_for_programs_are_the_objects(
    run: Run, cluster: FakeCluster, command: str, output: str, parse: Any
) -> None:
    """JSON and YAML hold what the API server holds."""
    expected = {"groups": cluster.groups(), "tables": cluster.tables()}[command]
    assert parse(run(command, "-o", output).stdout) == expected


def test_tables_as_columns(run: Run, cluster: FakeCluster) -> None:
    """A table's row shows what is loaded; a table without a load shows dashes."""
    unloaded = table_object("new")
    unloaded["status"] = {}
    cluster.tables().append(unloaded)
    _, loaded, new = run("tables").stdout.splitlines()
    assert loaded.split() == ["orders", "sales", "true", "k", "-", "3", "2", "4", "10", "2.0", "KiB"]
    assert new.split() == ["new", "sales", "-", "k", "-", "-", "-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("conditions", "line"),
    [
        pytest.param([("Ready", "True", "Reconciled"), ("Accepted", "True", "Accepted")], None, id="ready"),
        pytest.param(
            [("Ready", "False", "SchemaMismatch"), ("Accepted", "False", "SchemaMismatch")],
            "orders: SchemaMismatch: about Ready", id="refused",
        ),
        pytest.param(
            [("Ready", "True", "Reconciled"), ("Reconciling", "True", "InsufficientSpace")],
            "orders: InsufficientSpace: about Reconciling", id="waits for room",
        ),
    ],
)  # fmt: skip
def test_open_matters_of_tables_stand_below(
    run: Run, cluster: FakeCluster, conditions: list[tuple[str, str, str]], line: str | None
) -> None:
    """In the operator's words."""
    cluster.tables()[0]["status"]["conditions"] = [
        {"type": kind, "status": status, "reason": reason, "message": f"about {kind}"}
        for kind, status, reason in conditions
    ]
    _, _, *below = run("tables").stdout.splitlines()
    assert below == ([] if line is None else ["", line])


def test_dropped_tables_are_listed_also_those_of_a_group_elsewhere(run: Run, cluster: FakeCluster) -> None:
    """With their mark, and the group as the table named it; another namespace's dropped tables are not ours."""

    def dropped(namespace: str, name: str) -> dict[str, str]:
        times = {"deletedAt": "2026-11-21T00:00:00Z", "purgeAt": "2026-11-22T00:00:00Z"}
        return {"namespace": namespace, "name": name, "uid": f"uid-of-{name}", **times}

    cluster.groups()[0]["status"]["recycled"] = [dropped("shop", "old"), dropped("lake", "theirs")]
    elsewhere = group_object(recycled=[dropped("shop", "lent")])
    elsewhere["metadata"]["namespace"] = "lake"
    cluster.groups().append(elsewhere)
    _, _, old, lent = run("tables").stdout.splitlines()
    assert (old.split()[:2], lent.split()[:2]) == (["old*", "sales"], ["lent*", "lake/sales"])


def test_a_table_that_the_operator_refuses_is_shown(run: Run, cluster: FakeCluster) -> None:
    """A spec that cannot be used is listed as it stands."""
    cluster.tables()[0]["spec"] = {"colocateWith": "sales", "bucketedBy": ["no_such_column"], "of": "a newer version"}
    assert "no_such_column" in run("tables").stdout


def test_a_status_that_cannot_be_read_is_explained(run: Run, cluster: FakeCluster) -> None:
    """The field is named; the other groups and tables are listed as they are."""
    cluster.groups().append(group_object("broken", tables=7))
    _, sales, broken, _, matter = run("groups").stdout.splitlines()
    assert "AllReplicasComplete" in sales
    assert broken.split()[:7] == ["broken", "2", "2", "bigint", "1", "unknown", "InvalidStatus"]
    assert matter == "broken: InvalidStatus: status.tables is 7: Input should be a valid tuple"
    assert f"stable:      unknown: {matter.removeprefix('broken: ')}" in run("show", "broken").stdout
    lines = {**table_object("lines"), "status": {"snapshot": {"id": "x"}, "accepted": True}}
    cluster.tables().append(lines)
    _, orders, bad, _, matter = run("tables").stdout.splitlines()
    assert (orders.split()[2], bad.split()[:3]) == ("true", ["lines", "sales", "InvalidStatus"])
    assert matter.startswith('lines: InvalidStatus: status.snapshot.id is "x": Input should be a valid integer')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["soon", 2**70]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
SNAPSHOT_FIELDS = ("id", "manifest", "committedAt", "partitions", "files", "rows", "bytes")
STATUSES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "accepted": JSON, "group": JSON, "buckets": JSON, "columns": JSON, "history": JSON, "conditions": JSON,
        "snapshot": JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(SNAPSHOT_FIELDS, JSON)),
    },
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(STATUSES)
def test_no_status_hinders_the_list_of_tables(status: Any) -> None:
    """Whatever somebody wrote: the table is listed, one that cannot be read with the reason, the others as they are."""
    hostile = {**table_object("hostile"), "status": status}
    cluster = FakeCluster([group_object()], [hostile, table_object()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "Cluster", lambda context, namespace: cluster)
        done = CliRunner().invoke(main, ["tables"])
    assert done.exit_code == 0, done.output
    _, bad, good, *matters = done.stdout.splitlines()
    assert (bad.split()[0], good.split()[:3]) == ("hostile", ["orders", "sales", "true"])
    assert ("InvalidStatus" in bad) == any(line.startswith("hostile: InvalidStatus: ") for line in matters)


SILENT = Freshness(message="the operator has given no sign of life since 2026-11-21T04:00:00Z")


@pytest.fixture
def silent(cluster: FakeCluster) -> FakeCluster:
    """The operator of the cluster has died; what it said last stands in the group."""
    cluster.fresh = SILENT
    cluster.config_map = {"data": {**cluster.config_map["data"], "operator.json": "{}"}}
    return cluster


def test_groups_of_a_silent_operator_are_unknown(run: Run, silent: FakeCluster) -> None:
    """Its last verdict still stands in the object; programs get a warning next to the objects."""
    _, line, _, matter = run("groups").stdout.splitlines()
    assert line.split()[5:7] == ["unknown", "OperatorSilent"]
    assert matter == f"OperatorSilent: {SILENT.message}"
    assert f"stable:      unknown: OperatorSilent: {SILENT.message}" in run("show", "sales").stdout
    for command in (["groups"], ["show", "sales"]):
        done = run(*command, "-o", "json")
        assert (json.loads(done.stdout) is not None, done.stderr) == (True, f"warning: {matter}\n")


def test_without_rights_on_config_maps_verdicts_are_taken_as_they_are(
    run: Run, silent: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are of an operator that writes no sign of life."""

    def forbid(group: object, namespace: str) -> None:
        raise ApiException(status=403)

    monkeypatch.setattr(silent, "spark_config_map", forbid)
    assert "AllReplicasComplete" in run("groups").stdout


def test_show_shows_what_is_wrong_with_which_bucket(run: Run, cluster: FakeCluster) -> None:
    """The map with the state of every bucket; how many there are when not all are listed."""
    problem = {"bucket": 1, "reason": "NodeGone", "message": "node-1 is gone", "since": "2026-11-21T00:00:00Z"}
    cluster.groups()[0] = group_object(stable=False, unstableBuckets=[problem], unstableBucketCount=30)
    text = run("show", "sales").stdout
    assert "0        node-1, node-2   stable" in text
    assert "1        node-2, node-1   NodeGone: node-1 is gone (since 2026-11-21T00:00:00Z)" in text
    assert "30 buckets are not stable, 1 of them shown" in text


def test_show_of_a_group_without_a_verdict(run: Run, cluster: FakeCluster) -> None:
    """A group that the operator has not seen is not called unstable."""
    cluster.groups()[0] = {**group_object(), "status": {}}
    assert "unknown: the operator has not reported yet" in run("show", "sales").stdout


def test_events_are_printed(run: Run, cluster: FakeCluster) -> None:
    """Time, type, reason and message of each."""
    assert "Normal   Stable   all complete" in run("events", "sales").stdout


@pytest.mark.parametrize("command", ["show", "events"])
def test_an_unknown_group_fails(run: Run, cluster: FakeCluster, command: str) -> None:
    """Exit code 1 and a message, no traceback."""
    done = run(command, "nope")
    assert done.exit_code == 1
    assert done.stderr == "error: there is no group 'nope'\n"


def test_drain_and_undrain_mark_the_node(run: Run, monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> None:
    """The mark is a label on the Node; the operator does the rest."""
    monkeypatch.setattr("colocation.cli.inspect.nodes.Cluster", lambda context, namespace: cluster)
    assert run("drain", "node-1").exit_code == 0
    assert cluster.drained == {"node-1": True}
    assert run("undrain", "node-1").exit_code == 0
    assert cluster.drained == {"node-1": False}


@pytest.mark.parametrize(
    ("labels", "spec", "answer"),
    [
        ({"colocation.dev/drain": "true"}, {}, "is no longer marked for drain; balancing gives it its share"),
        ({}, {}, "was not marked for drain; nothing is changed"),
        ({}, {"unschedulable": True}, "was not marked for drain; it is cordoned: it takes no replicas, and a drain by "
         "kubectl goes on: kubectl uncordon node-1"),
        ({"colocation.dev/drain": "true"}, {"unschedulable": True}, "is no longer marked for drain; it is cordoned: it "
         "takes no replicas, and a drain by kubectl goes on: kubectl uncordon node-1"),
    ],
)  # fmt: skip
def test_undrain_tells_what_it_took_back(
    run: Run, monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, labels: Any, spec: Any, answer: str
) -> None:
    """Also that there was nothing to take back, and what a drain by kubectl needs instead."""
    monkeypatch.setattr("colocation.cli.inspect.nodes.Cluster", lambda context, namespace: cluster)
    cluster.nodes_by_name["node-1"] = {"metadata": {"name": "node-1", "labels": labels}, "spec": spec}
    assert run("undrain", "node-1").stdout == f"node node-1 {answer}\n"


def test_a_disk_that_cannot_be_an_id_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> None:
    """A mistyped one would wait for ever, without a word."""
    monkeypatch.setattr("colocation.cli.inspect.nodes.Cluster", lambda context, namespace: cluster)
    done = run("accept-disk", "node-1", "nvme0")
    assert done.exit_code == 2
    assert "DISK is 'nvme0'; allowed: the id that `colocation nodes` shows" in done.stderr


@pytest.mark.parametrize("line", [["drain", "node-1", "-n", "shop"], ["nodes", "-A"], ["snapshot", "--namespace", "x"]])
def test_commands_about_the_cluster_take_no_namespace(run: Run, line: list[str]) -> None:
    """They tell so; any other unknown option is only that."""
    done = run(*line)
    assert (done.exit_code, f"`colocation {line[0]}` is about the whole cluster: leave -" in done.stderr) == (2, True)
    assert "whole cluster" not in run("nodes", "--nope").stderr


def test_every_command_that_tells_something_tells_it_to_programs_too(
    run: Run, monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> None:
    """`-o json` and `-o yaml`, also where a command changes something."""
    monkeypatch.setattr("colocation.cli.inspect.nodes.Cluster", lambda context, namespace: cluster)
    assert json.loads(run("drain", "node-1", "-o", "json").stdout) == {"node": "node-1", "drain": True}
    assert yaml.safe_load(run("undrain", "node-1", "-o", "yaml").stdout) == {"node": "node-1", "drain": False}
    options_of = {name: {one.name for one in command.load().params} for name, command in main.commands.items()}
    without = [name for name, options in options_of.items() if "output" not in options]
    assert without == ["report", "completion"]  # a file, by -o FILE; a script for a shell
