"""What follows from the objects and the agents' words alone."""

from dataclasses import replace
from datetime import datetime

import pytest

from colocation.model.agent import CloneProgress
from colocation.model.names import private_group_name
from colocation.model.table import Retention, TableSnapshot
from colocation.state.agent_view import AgentView
from colocation.state.objects import ObservedAgent, ObservedHolder, ObservedTable
from colocation.state.observation import Observation

from .objects import MANIFEST, NOW, agent, clone_job, group, node, seconds, table, view

READY, UNREADY = agent("node-1"), replace(agent("node-1"), ready=False)
GOING, UNREADY_GOING = agent("node-1", deleting=True), replace(agent("node-1", deleting=True), ready=False)
OLD, OLD_GOING = (replace(one, shares_certificate=True) for one in (READY, GOING))


@pytest.mark.parametrize(
    ("pods", "is_unready"),
    [
        ((), False),
        ((READY,), False),
        ((UNREADY,), True),
        ((GOING,), True),
        ((UNREADY_GOING,), True),
        ((UNREADY, READY), False),
        ((GOING, UNREADY), True),
    ],
)
def test_a_node_is_unready_without_a_ready_pod_that_stays(pods: tuple[ObservedAgent, ...], is_unready: bool) -> None:
    """A node without any pod is not: nothing is known of it."""
    assert Observation(NOW, agents=pods).unready_nodes == ({"node-1"} if is_unready else set())


@pytest.mark.parametrize(
    ("pods", "shares"), [((READY,), False), ((OLD,), True), ((OLD_GOING,), False), ((OLD_GOING, READY), False)]
)
def test_a_node_of_the_release_before_shares_its_certificate(pods: tuple[ObservedAgent, ...], shares: bool) -> None:
    """Until its pod goes."""
    assert Observation(NOW, agents=pods).shared_certificate_nodes == ({"node-1"} if shares else set())


@pytest.mark.parametrize(
    ("deleting", "schedulable", "is_there", "is_evicted"),
    [(True, False, True, True), (True, True, True, False), (False, False, True, False), (True, False, False, False)],
)
def test_a_node_is_asked_for_by_evicting_its_holder(
    deleting: bool, schedulable: bool, is_there: bool, is_evicted: bool
) -> None:
    """While it takes no new pods."""
    holder = ObservedHolder("system", "holder", "uid", "node-1", NOW, deleting)
    nodes = (replace(node("node-1"), schedulable=schedulable),) if is_there else ()
    assert Observation(NOW, nodes=nodes, holders=(holder,)).evicted_nodes == ({"node-1"} if is_evicted else set())


def progress(bucket: int) -> CloneProgress:
    return CloneProgress(
        namespace="shop", group="sales", bucket=bucket, bytes_done=7, bytes_total=10, updated_at="1970-01-01T00:00:00Z"
    )


def test_clones_are_found_by_their_place() -> None:
    """The node is the one that reports it. Agents that are silent, or never answered, add nothing false."""
    views = {"node-3": view(clones=(progress(0), progress(1))), "node-4": AgentView()}
    found = Observation(NOW, agent_views=views).clone_progress
    assert found == {("node-3", "shop", "sales", number): progress(number) for number in (0, 1)}
    assert found[clone_job().place] == progress(0)


def test_only_agents_that_can_be_asked_answer() -> None:
    """By node."""
    names = ("node-5", "node-1", "node-2", "node-3", "node-4")
    views = {
        "node-5": view(), "node-4": AgentView(), "node-3": view(silent_since=NOW), "node-2": view(), "node-1": view(),
        "node-6": view(),
    }  # fmt: skip
    agents = tuple(agent(name, None if name == "node-2" else "10.0.0.1") for name in names)
    observation = Observation(NOW, agents=agents, agent_views=views)
    assert [one.node for one in observation.answering] == ["node-1", "node-5"]
    assert observation.silent_nodes == {"node-3"}


@pytest.mark.parametrize(
    ("asked_at", "answered_at", "is_newer"),
    [(NOW, NOW, False), (NOW + seconds(1), NOW, True), (None, NOW, False), (None, NOW + seconds(1), True),
     (NOW, NOW + seconds(1), False), (None, None, False)],
)  # fmt: skip
def test_a_report_is_as_new_as_its_question(
    asked_at: datetime | None, answered_at: datetime | None, is_newer: bool
) -> None:
    """An answer may be long on its way."""
    assert AgentView(answered_at=answered_at, asked_at=asked_at).is_newer_than(NOW) is is_newer


# Tables


def snapshot(number: int, committed_at: str) -> TableSnapshot:
    return TableSnapshot(id=number, manifest=f"sha256:{number:064x}", committed_at=committed_at)


LAST, BEFORE, FIRST = (
    snapshot(3 - number, time)
    for number, time in enumerate(("2026-11-21T11:00:00Z", "2026-11-21T10:00:00Z", "2026-11-21T09:00:00Z"))
)
ORDERS = table("orders", retention={"seconds": 3600, "snapshots": 9})


def with_status(**fields: object) -> ObservedTable:
    return replace(ORDERS, status=ORDERS.status.model_copy(update=fields))


@pytest.mark.parametrize(
    ("of", "ends_at"),
    [
        pytest.param(with_status(snapshot=LAST, history=()), None, id="nothing is retained"),
        pytest.param(with_status(snapshot=LAST, history=(BEFORE,)), NOW, id="one: since the last commit"),
        pytest.param(with_status(snapshot=LAST, history=(BEFORE, FIRST)), NOW - seconds(3600), id="two: the older one"),
        pytest.param(with_status(snapshot=None, history=(BEFORE,)), None, id="nothing is committed"),
        pytest.param(replace(with_status(snapshot=LAST, history=(BEFORE,)), spec=None), None, id="no spec"),
    ],
)
def test_when_time_alone_takes_a_snapshot_away(of: ObservedTable, ends_at: datetime | None) -> None:
    """The operator wakes then."""
    assert of.history_ends_at == ends_at


def test_a_retention_beyond_all_calendars_never_ends() -> None:
    """It breaks nothing."""
    of = with_status(snapshot=LAST, history=(BEFORE,))
    assert of.spec is not None
    spec = of.spec.model_copy(update={"retention": Retention.model_construct(seconds=10**12, snapshots=9)})
    assert replace(of, spec=spec).history_ends_at is None


@pytest.mark.parametrize(
    ("recovers", "adopts", "snapshot_", "status_error", "is_recovering"),
    [
        (None, "", None, "", False),
        ("old", "", None, "", True),
        (None, "0a1b2c3d", None, "", True),
        ("old", "", LAST, "", False),
        ("old", "", None, "status.history: not a list", False),
    ],
)
def test_a_table_that_is_made_again_waits_for_its_snapshot(
    recovers: str | None, adopts: str, snapshot_: TableSnapshot | None, status_error: str, is_recovering: bool
) -> None:
    """One whose status cannot be read may have it."""
    found = replace(with_status(snapshot=snapshot_), recovers=recovers, adopts=adopts, status_error=status_error)
    assert found.is_recovering is is_recovering


def test_the_groups_that_a_table_names() -> None:
    """A namespace may be named; a table in no group has one of its own."""
    assert (with_status(group="bank/vault").status_group, ORDERS.status_group) == (("bank", "vault"), None)
    assert table("orders", "bank/vault").spec_group == ("bank", "vault")
    private = table("orders", "")
    assert private.spec_group == ("shop", private_group_name("orders", private.identity.uid))
    assert replace(ORDERS, spec=None).spec_group is None
    assert (ORDERS.scope, group().scope) == ("table shop/orders", "group shop/sales")


def test_a_table_as_agents_know_it() -> None:
    """With the manifests of all snapshots that stay."""
    found = with_status(history=(BEFORE, FIRST)).reference
    assert (found.namespace, found.directory, found.manifest) == ("shop", ORDERS.directory, MANIFEST)
    assert found.retained_manifests == (f"{2:064x}", f"{1:064x}")
    assert with_status(snapshot=None).reference.manifest is None


@pytest.mark.parametrize(
    ("replaces", "is_being_replaced"), [(f"sha256:{MANIFEST}", True), (f"sha256:{1:064x}", False), (None, False)]
)
def test_a_table_is_replaced_until_the_next_commit(replaces: str | None, is_being_replaced: bool) -> None:
    """Its rows are still those of the manifest that goes."""
    assert replace(ORDERS, replaces=replaces).is_being_replaced is is_being_replaced
    assert not replace(with_status(snapshot=None), replaces=replaces).is_being_replaced
