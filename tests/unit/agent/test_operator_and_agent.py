"""The operator's own client and a real agent: questions and answers, held, in parts and after restarts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from colocation.agent.authorizer import Identity
from colocation.agentclient import Credentials, Forbidden, UnknownQuestion
from colocation.kube.agent_channel import HttpChannel
from colocation.kube.inventories import Inventories
from colocation.model.agent import AskedTable, InventoryRequest
from tests.support.leaders import FixedLeader
from tests.support.waiting import until

from .harness import ADMIN, ADMIN_TOKEN, TABLE, AgentThread, FakeAuthorizer, Operator

KEY = (TABLE.path.namespace, TABLE.path.directory)


@pytest.fixture
async def inventories(loaded: AgentThread) -> AsyncIterator[Inventories]:
    """The operator's knowledge of the agents, by real connections."""
    credentials = Credentials(loaded.pki.ca.parent / f"{ADMIN_TOKEN}.token", loaded.pki.ca)
    opened = Inventories(HttpChannel(credentials), lambda: datetime.now(UTC), lambda: None, FixedLeader(3))
    yield opened
    await opened.close()


async def ask(inventories: Inventories, agent: AgentThread, asked: AskedTable | None) -> None:
    """One pass's question."""
    question = {KEY: asked} if asked else {}
    await inventories.ask({"node-1": agent.url}, ["node-1"], {"node-1": question})


def bucket_states(inventories: Inventories) -> dict[int, str | None]:
    """The operator's knowledge of the table."""
    view = inventories.views["node-1"]
    return {bucket: found.state for bucket, found in view.tables[KEY].buckets.items()} if KEY in view.tables else {}


async def test_changes_arrive_without_another_question(inventories: Inventories, loaded: AgentThread) -> None:
    """The operator asks once; a dropped bucket is known without another pass."""
    await ask(inventories, loaded, TABLE.asked)
    assert bucket_states(inventories) == {0: "complete", 1: "complete"}
    view = inventories.views["node-1"]
    with loaded.client() as client:
        order = Operator(client, term=3)
        order.report = view.report
        proof = order.proof(TABLE.asked)
        await asyncio.to_thread(client.drop_bucket, *TABLE.path, 0, (TABLE.manifest,), 60, proof)
    await asyncio.to_thread(until, lambda: bucket_states(inventories) == {0: None, 1: "complete"})


async def test_changed_questions_are_answered_immediately(inventories: Inventories, loaded: AgentThread) -> None:
    """While the previous one is held; a table that is no longer named is an unknown folder."""
    await ask(inventories, loaded, TABLE.asked)
    await asyncio.to_thread(until, lambda: loaded.running.node.conversation.question.number > 1)  # held
    await ask(inventories, loaded, TABLE.asked.model_copy(update={"map_version": 8}))
    assert loaded.running.node.conversation.question.tables[str(TABLE.path)].map_version == 8
    await ask(inventories, loaded, None)
    assert inventories.views["node-1"].report.unknown_directories == (str(TABLE.path),)
    assert bucket_states(inventories) == {}


async def test_a_restarted_agent_is_asked_in_full(inventories: Inventories, loaded: AgentThread) -> None:
    """It remembers nothing, and the operator notices the new process."""
    await ask(inventories, loaded, TABLE.asked)
    before = inventories.views["node-1"].report.instance
    await asyncio.to_thread(loaded.stop)
    again = AgentThread(loaded.settings.data_root, loaded.pki, FakeAuthorizer())
    await asyncio.to_thread(again.start, port=0)
    try:
        await ask(inventories, again, TABLE.asked)
        await asyncio.to_thread(until, lambda: inventories.views["node-1"].report.instance != before)
        assert bucket_states(inventories) == {0: "complete", 1: "complete"}
    finally:
        await inventories.close()
        await asyncio.to_thread(again.stop)


async def test_an_operator_of_the_previous_release_keeps_the_last_answer(
    inventories: Inventories, loaded: AgentThread
) -> None:
    """It sends its general token, which this release's agent refuses for its questions, so the agent seems silent.

    A silent agent's last answer counts for the grace, as with a restart; orders of that operator are refused, too.
    """
    await ask(inventories, loaded, TABLE.asked)
    loaded.authorizer.callers[ADMIN_TOKEN] = Identity("admin")
    await ask(inventories, loaded, TABLE.asked.model_copy(update={"map_version": 8}))
    await asyncio.to_thread(until, lambda: inventories.views["node-1"].silent_since is not None)
    assert bucket_states(inventories) == {0: "complete", 1: "complete"}
    with loaded.client() as client, pytest.raises(Forbidden, match="WrongAudience"):
        order = Operator(client, term=3)
        order.report = inventories.views["node-1"].report
        await asyncio.to_thread(
            client.drop_bucket, *TABLE.path, 0, (TABLE.manifest,), 60, order.proof(TABLE.asked)
        )
    loaded.authorizer.callers[ADMIN_TOKEN] = ADMIN  # the operator of this release has come
    await asyncio.to_thread(until, lambda: inventories.views["node-1"].silent_since is None)


async def test_another_session_does_not_silence_the_operator(inventories: Inventories, loaded: AgentThread) -> None:
    """The operator's next question replaces the other session's, and is asked in full."""
    await ask(inventories, loaded, TABLE.asked)
    # The operator may ask again before the other session has its answer, which is an error then.
    with loaded.client() as client, contextlib.suppress(UnknownQuestion):
        await asyncio.to_thread(client.inventory, InventoryRequest(session="somebody", term=3))
    await asyncio.to_thread(until, lambda: loaded.running.node.conversation.question.session != "somebody")
    assert inventories.views["node-1"].silent_since is None
