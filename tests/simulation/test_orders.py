"""Orders and writes that somebody got wrong: each single thing that makes one wrong stops it where it would do harm.

Elsewhere in the simulation several checks stand behind each other. Here all is right but one thing.
"""

from dataclasses import replace
from typing import Any, Literal

import pytest

from colocation.agent.conversation import Order, StaleOrder, StaleTerm
from colocation.kube.api import GROUPS, TABLES
from colocation.kube.errors import ClusterError
from colocation.model.agent import DeletionProof
from colocation.reconcile.actions import (
    Action,
    DeleteGroup,
    DropBucket,
    EndRecoverRequests,
    MarkGroupUnstable,
    RecycleTable,
    TableDrop,
    WriteGroupStatus,
    WriteTableStatus,
)
from colocation.state.objects import Identity
from colocation.state.parse import parse_group, parse_identity
from colocation.storage.paths import TablePath

from .agents import AgentProcess
from .disks import File
from .loads import OVERWRITE
from .scenes import MINUTE, Scene, play
from .users import SHOP
from .world import directory_of

UNKNOWN_MANIFEST = "f" * 64
Kind = Literal["drop", "collect", "recycle"]


def agent_of(scene: Scene) -> AgentProcess:
    """On the first node of the map."""
    return scene.world.machines[scene.rows()[0][0]].agent


def right_order(scene: Scene, kind: Kind) -> Order:
    """What the agent would carry out."""
    agent, directory = agent_of(scene), directory_of(scene.table())
    question = agent.conversation.question
    assert question is not None
    asked = question.tables[f"{SHOP}/{directory}"]
    proof = DeletionProof(
        instance=agent.conversation.instance,
        not_after_seconds=agent.conversation.uptime_seconds + 30,
        term=agent.conversation.term,
        table_uid=asked.uid,
        group_uid=asked.group_uid,
        map_version=asked.map_version,
    )
    return Order(kind, TablePath(SHOP, directory), proof, asked.reference.live_manifests, 0)


def carry_out(agent: AgentProcess, order: Order) -> None:
    match order.kind:
        case "drop":
            agent.drop_bucket(order, 0)
        case "collect":
            agent.collect(order, 0)
        case "recycle":
            agent.recycle(order, 60)


def all_files(scene: Scene) -> dict[str, list[File]]:
    return {name: machine.disk.files() for name, machine in scene.world.machines.items()}


WRONG_PROOFS: dict[str, dict[str, Any]] = {
    "another process": {"instance": "another"},
    "late": {"not_after_seconds": 1.0},
    "an operator that was replaced": {"term": 0},
    "another table of the name": {"table_uid": "another"},
    "another group": {"group_uid": "another"},
    "an older map": {"map_version": 0},
}


@pytest.mark.parametrize("kind", ["drop", "collect"])
@pytest.mark.parametrize("case", [*WRONG_PROOFS, "a snapshot is not named", "an unknown table"])
def test_an_agent_obeys_no_order_of_which_one_part_is_wrong(kind: Kind, case: str) -> None:
    """Nothing goes, whatever operator gave it, and for whatever cause."""

    async def story(scene: Scene) -> None:
        await scene.make()
        await scene.load(OVERWRITE)
        await scene.sleep(MINUTE)
        order, before = right_order(scene, kind), all_files(scene)
        if case == "a snapshot is not named":
            order = replace(order, manifests=(*order.manifests[1:], UNKNOWN_MANIFEST))
        elif case == "an unknown table":
            order = replace(order, table=TablePath(SHOP, "another-00000001"))
        else:
            order = replace(order, proof=order.proof.model_copy(update=WRONG_PROOFS[case]))
        with pytest.raises((StaleOrder, StaleTerm)):
            carry_out(agent_of(scene), order)
        assert all_files(scene) == before

    play(story)


def test_an_agent_recycles_no_folder_that_it_is_asked_about() -> None:
    """It is a table that somebody wants."""

    async def story(scene: Scene) -> None:
        await scene.make()
        await scene.sleep(10)
        with pytest.raises(StaleOrder):
            carry_out(agent_of(scene), right_order(scene, "recycle"))

    play(story)


def test_an_agent_that_was_asked_nothing_obeys_no_order() -> None:
    """It has just started, and does not know what is wanted."""

    async def story(scene: Scene) -> None:
        await scene.make()
        order = right_order(scene, "drop")
        scene.world.network.cut_off(agent_of(scene).node)
        scene.world.restart_agent(agent_of(scene).node)
        agent = agent_of(scene)
        proof = {"instance": agent.conversation.instance, "term": 99}
        for kind in ("drop", "collect", "recycle"):
            with pytest.raises(StaleOrder):
                carry_out(agent, replace(order, kind=kind, proof=order.proof.model_copy(update=proof)))
        scene.world.network.reconnect()

    play(story)


def test_an_order_that_a_commit_overtakes_is_refused() -> None:
    """It was right when it was given: since then the agent was asked about another snapshot."""

    async def story(scene: Scene) -> None:
        await scene.make(retention={"seconds": 0, "snapshots": 0})
        network = scene.world.network
        await scene.load(OVERWRITE)
        for node in scene.rows()[0]:
            network.hold_orders_to[node] = float("inf")
        await scene.until(lambda: network.kept_orders, scene.world.limits.garbage_grace + 3 * MINUTE, 0.1)
        await scene.load(OVERWRITE)
        await scene.sleep(3)
        network.deliver_kept()
        assert "refused" in scene.world.timeline[-1].text
        network.hold_orders_to.clear()
        await scene.until_well()

    play(story)


# What operators refuse by themselves


async def refused(scene: Scene, action: Action) -> None:
    """The real writer of the operator does not do it."""
    process = scene.operator.process
    assert process is not None
    with pytest.raises(ClusterError):
        await process._reconciler._writer.perform(action)


def with_version(identity: Identity, version: str = "1") -> Identity:
    return replace(identity, resource_version=version)


def observed_group(scene: Scene) -> Identity:
    return parse_group(scene.group()).identity


def drop_of(scene: Scene) -> DropBucket:
    """Right in all but that the bucket is wanted: what was decided on is not looked at any more."""
    order, group = right_order(scene, "drop"), parse_group(scene.group())
    table = TableDrop(SHOP, order.table.directory, order.manifests, order.proof)
    agent = agent_of(scene)
    return DropBucket(group.identity, group.status.map_version or 0, agent.node, agent.url, 0, (table,), 600)


def test_an_operator_sends_no_drop_of_another_map() -> None:
    """It reads the group again: the map has changed, or the group was made again."""

    async def story(scene: Scene) -> None:
        await scene.make()
        await scene.sleep(10)
        action = drop_of(scene)
        await refused(scene, replace(action, map_version=action.map_version + 1))
        await refused(scene, replace(action, group=replace(action.group, uid="another")))

    play(story)


def test_an_operator_recycles_no_folder_of_a_table_that_exists() -> None:
    """It looks for the table again: it may not have heard of it."""

    async def story(scene: Scene) -> None:
        await scene.make()
        await scene.sleep(10)
        agent, order = agent_of(scene), right_order(scene, "recycle")
        action = RecycleTable(agent.node, agent.url, SHOP, order.table.directory, 60, order.proof)
        await refused(scene, action)

    play(story)


def test_an_operator_writes_over_nothing_that_it_has_not_read() -> None:
    """Each write names what it was decided from."""

    async def story(scene: Scene) -> None:
        await scene.make()
        await scene.sleep(10)
        group, table = observed_group(scene), parse_identity(scene.table())
        before = scene.group(), scene.table()
        await refused(scene, WriteGroupStatus(with_version(group), {"stable": False}))
        await refused(scene, WriteTableStatus(with_version(table), {"accepted": False}))
        await refused(scene, MarkGroupUnstable(replace(group, uid="another"), {"stable": False}))
        await refused(scene, EndRecoverRequests(replace(group, uid="another"), ("12345678",)))
        process = scene.operator.process
        assert process is not None
        await process._reconciler._writer.perform(DeleteGroup(with_version(group)))
        await process._reconciler._writer.perform(DeleteGroup(replace(group, uid="another")))
        assert scene.world.api.find(GROUPS, SHOP, "sales") == before[0]
        assert scene.world.api.find(TABLES, SHOP, "orders") == before[1]

    play(story)
