"""What each agent is asked about: the same whether it is worked out at once or change by change."""

import random
from dataclasses import dataclass, field, replace

import pytest

from colocation.kube.questions import Questions
from colocation.manifests.clone_job import clone_job_name
from colocation.model.agent import AgentReport, TableReport
from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus, TableSnapshot
from colocation.state.agent_view import AgentView, TableKey, key_of
from colocation.state.clone_jobs import transfer_name
from colocation.state.objects import Identity, ObservedCloneJob, ObservedGroup, ObservedTable

from ..state.objects import NOW

NODES = ("n1", "n2", "n3", "n4")
SPEC = ColocationGroupSpec.model_validate({"bucketKey": ["bigint"], "buckets": 2, "replicas": 1})
TABLE_SPEC = ColocatedTableSpec.model_validate({"columns": [{"name": "k", "type": "bigint"}], "bucketedBy": ["k"]})


@dataclass
class Cluster:
    """Groups, tables, clone Jobs and views; each test changes what it is about."""

    groups: dict[str, ObservedGroup] = field(default_factory=dict)
    tables: dict[str, ObservedTable] = field(default_factory=dict)
    jobs: dict[str, ObservedCloneJob] = field(default_factory=dict)
    views: dict[str, AgentView] = field(default_factory=dict)

    def group(self, name: str, *nodes: str, version: int = 1) -> None:
        status = ColocationGroupStatus(backends_per_bucket_seq=(nodes,) if nodes else None, map_version=version)
        self.groups[name] = ObservedGroup(Identity("shop", name, f"uid-{name}", "1", 1, NOW), SPEC, "", status)

    def table(
        self, name: str, group: str | None, manifest: str | None = "a" * 64, namespace: str = "shop"
    ) -> ObservedTable:
        identity = Identity(namespace, name, f"{sum(name.encode()):08d}-{name}", "1", 1, NOW)
        snapshot = None
        if manifest is not None:
            snapshot = TableSnapshot(id=1, manifest=f"sha256:{manifest}", committed_at="2026-11-21T00:00:00Z")
        status = ColocatedTableStatus(group=group, snapshot=snapshot)
        self.tables[name] = ObservedTable(identity, TABLE_SPEC, "", status)
        return self.tables[name]

    def job(self, group: str, target: str, namespace: str = "shop") -> None:
        name = clone_job_name(f"uid-{group}", 0, target)
        identity = Identity("system", name, name, "1", 1, NOW)
        self.jobs[name] = ObservedCloneJob(identity, namespace, group, 0, None, target, 0, "running", None, None)

    def say(self, node: str, unknown: tuple[str, ...], asked: Questions) -> None:
        """The agent answers what it is asked, and that these folders lie there, all of them with files."""
        question = asked.asked.get(node, {})
        tables = tuple(
            TableReport(namespace=key[0], directory=key[1], manifest=None, manifest_present=True) for key in question
        )
        paths = tuple(path for path in unknown if tuple(path.split("/")) not in question)
        report = AgentReport(
            node=node, revision="1", capacity_bytes=1, free_bytes=1, tables=tables, unknown_directories=paths
        )
        self.views[node] = AgentView.of(report, question.values())

    def update(self, questions: Questions) -> bool:
        return questions.update(
            tuple(self.groups.values()), tuple(self.tables.values()), tuple(self.jobs.values()), self.views
        )


def keys(questions: Questions) -> dict[str, set[str]]:
    """Node -> names of the tables that it is asked about."""
    return {node: {key[1].rpartition("-")[0] for key in asked} for node, asked in questions.asked.items()}


@pytest.fixture
def cluster() -> Cluster:
    one = Cluster()
    one.group("sales", "n1", "n2")
    one.table("orders", "sales")
    one.table("lines", "sales")
    one.table("alone", None)
    return one


@pytest.fixture
def questions(cluster: Cluster) -> Questions:
    one = Questions()
    cluster.update(one)
    return one


def test_nodes_are_asked_about_the_tables_of_their_groups(cluster: Cluster, questions: Questions) -> None:
    """And about no others; the epoch of deletions is that of the group that places the table."""
    assert keys(questions) == {"n1": {"orders", "lines"}, "n2": {"orders", "lines"}}
    asked = questions.asked["n1"][key_of(cluster.tables["orders"].reference)]
    assert (asked.uid, asked.group_uid, asked.map_version) == (cluster.tables["orders"].identity.uid, "uid-sales", 1)


def test_commit_makes_new_questions_for_the_tables_nodes_only(cluster: Cluster, questions: Questions) -> None:
    """All other questions stay the same objects, so nothing is sent to their nodes."""
    cluster.group("stock", "n3")
    cluster.table("items", "stock")
    cluster.update(questions)
    before = dict(questions.asked)
    cluster.table("orders", "sales", "b" * 64)
    assert cluster.update(questions)
    same = {node for node, asked in questions.asked.items() if asked is before[node]}
    assert same == {"n3"}
    assert questions.forgotten_manifests() == {("shop", cluster.tables["orders"].directory, "a" * 64)}
    assert not cluster.update(questions)


def test_live_manifest_stays_known_when_a_retained_one_ages_out(cluster: Cluster, questions: Questions) -> None:
    """No agent reports again what it said of it: its report has not changed."""
    table = cluster.table("orders", "sales")
    assert table.status.snapshot is not None
    older = table.status.snapshot.model_copy(update={"manifest": f"sha256:{'b' * 64}"})
    cluster.tables["orders"] = replace(table, status=table.status.model_copy(update={"history": (older,)}))
    cluster.update(questions)
    cluster.tables["orders"] = table
    assert cluster.update(questions)
    assert not questions.forgotten_manifests()


def test_new_map_version_is_a_new_question(cluster: Cluster, questions: Questions) -> None:
    """Agents refuse deletions that were decided on another map."""
    cluster.group("sales", "n1", "n2", version=2)
    assert cluster.update(questions)
    assert {one.map_version for one in questions.asked["n1"].values()} == {2}


def test_node_that_leaves_the_map_is_asked_while_it_holds_something(cluster: Cluster, questions: Questions) -> None:
    """Its replicas are surplus and have to be seen to be deleted."""
    cluster.say("n2", (), questions)
    cluster.update(questions)
    cluster.group("sales", "n1", "n3", version=2)
    cluster.update(questions)
    assert keys(questions) == {node: {"orders", "lines"} for node in ("n1", "n2", "n3")}
    del cluster.tables["orders"]
    cluster.update(questions)
    assert keys(questions)["n2"] == {"lines"}


def test_folders_that_lie_somewhere_are_asked_about(cluster: Cluster, questions: Questions) -> None:
    """Also when the agent speaks of the folder before the table is known here."""
    later = Cluster().table("later", None)
    orders = cluster.tables["orders"]
    cluster.say("n4", (f"shop/{orders.directory}", f"shop/{later.directory}", "odd"), questions)
    assert cluster.update(questions)
    assert keys(questions)["n4"] == {"orders"}
    cluster.tables["later"] = later
    assert cluster.update(questions)
    assert keys(questions)["n4"] == {"orders", "later"}


def test_targets_of_clones_are_asked(cluster: Cluster, questions: Questions) -> None:
    """Of a group's, about all its tables; of a table's on its way to another group, about that table."""
    cluster.job("sales", "n3")
    cluster.job(transfer_name(cluster.tables["alone"].identity.uid), "n4")
    cluster.update(questions)
    assert keys(questions)["n3"] == {"orders", "lines"}
    assert keys(questions)["n4"] == {"alone"}
    cluster.jobs.clear()
    cluster.update(questions)
    assert "n4" not in keys(questions)


@pytest.mark.parametrize("namespace", ["shop", "stock"])
def test_tables_whose_uids_begin_alike_do_not_harm_each_other(cluster: Cluster, namespace: str) -> None:
    """Each goes by itself, and a clone Job that moves one is of its own namespace."""
    cluster.table("ab", None)
    other = cluster.table("ba", None, namespace=namespace)
    uid = cluster.tables["ab"].identity.uid
    questions = Questions()
    cluster.update(questions)
    cluster.job(transfer_name(other.identity.uid), "n4", namespace)
    cluster.update(questions)
    assert keys(questions)["n4"] == {"ba"} and transfer_name(uid) == transfer_name(other.identity.uid)
    for name in ("ab", "ba"):
        del cluster.tables[name]
        cluster.update(questions)
    assert keys(questions) == {"n1": {"orders", "lines"}, "n2": {"orders", "lines"}}


@pytest.mark.parametrize("seed", range(20))
def test_change_by_change_is_the_same_as_at_once(seed: int) -> None:
    """Whatever happens in whatever order, everything that should be asked is, with the newest manifest and map."""
    chance = random.Random(seed)
    cluster, questions = Cluster(), Questions()
    for _ in range(60):
        _happen(chance, cluster, questions)
        before = dict(questions.asked)
        changed = cluster.update(questions)
        assert changed == (questions.asked != before)
        fresh = Questions()
        cluster.update(fresh)
        for node, asked in fresh.asked.items():
            assert asked.items() <= questions.asked[node].items()
        live = _live(fresh, cluster)
        for asked in questions.asked.values():
            assert asked.items() <= live.items()


def _live(fresh: Questions, cluster: Cluster) -> dict[TableKey, object]:
    paths = tuple(f"shop/{table.directory}" for table in cluster.tables.values())
    everything = replace(cluster, views={})
    everything.say("all", paths, Questions())
    everything.update(fresh)
    return dict(fresh.asked.get("all", {}))


def _happen(chance: random.Random, cluster: Cluster, questions: Questions) -> None:
    group, table, node = chance.choice(("g1", "g2")), chance.choice(("a", "b", "c")), chance.choice(NODES)
    match chance.randrange(8):
        case 0:
            cluster.group(group, *chance.sample(NODES, 2), version=chance.randrange(3))
        case 1:
            cluster.groups.pop(group, None)
        case 2 | 3:
            cluster.table(table, chance.choice((group, None)), chance.choice(("a" * 64, "b" * 64, None)))
        case 4:
            cluster.tables.pop(table, None)
        case 5:
            cluster.job(chance.choice((group, transfer_name(f"{sum(table.encode()):08d}"))), node)
        case 6:
            cluster.jobs.clear()
        case 7:
            path = f"shop/{table}-{sum(table.encode()):08d}"
            cluster.say(node, (path,), questions)
