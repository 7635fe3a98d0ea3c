"""The way to the agents: slow, cut in one or both directions, with orders that arrive late, twice or half."""

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from colocation.agent.conversation import Order, StaleOrder, StaleTerm, UnknownQuestion
from colocation.agentclient import AgentError
from colocation.agentclient.calls import NOT_MODIFIED, Call
from colocation.agentclient.errors import Unreachable, error_of_response
from colocation.model.agent import AgentReport, DeletionProof, InventoryRequest, RecycledSchema, Removed
from colocation.storage.paths import TablePath

from .agents import AgentDied, AgentProcess, ManifestAway
from .disks import DiskFailed

if TYPE_CHECKING:
    from .api import ApiFaults
    from .world import World

Answer = TypeVar("Answer")
CONNECT_SECONDS = 2.0
DEAD_PEER_SECONDS = (5.0, 14.0)
"""After so long a connection to a machine that is gone ends."""
ORDER_FATES = ("lost", "late", "twice", "half", "unanswered")


@dataclass
class NetworkFaults:
    """``order_rate``: of orders that do not just arrive. ``slow_rate``: of requests that take seconds.

    ``latest_seconds``: how late an order may arrive.
    """

    order_rate: float = 0.0
    slow_rate: float = 0.0
    slowest_seconds: float = 8.0
    latest_seconds: float = 600.0


class Network:
    """Who reaches whom. ``cut``: nodes that operators do not reach. ``mute``: nodes whose answers do not come back.

    ``hold_orders_to``: node -> how many seconds late every order arrives there; infinity: with `deliver_kept`.
    ``repeat_orders_to``: a node to which every order comes again when that is called.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self.faults = NetworkFaults()
        self.cut: set[str] = set()
        self.mute: set[str] = set()
        self._changed = asyncio.Event()
        self.hold_orders_to: dict[str, float] = {}
        self.repeat_orders_to = ""
        self._kept: list[Callable[[], None]] = []

    def cut_off(self, node: str) -> None:
        """Operators do not reach the node any more."""
        self.cut.add(node)
        self.ring()

    def silence(self, node: str) -> None:
        """What the node answers does not arrive any more."""
        self.mute.add(node)
        self.ring()

    def reconnect(self) -> None:
        """All partitions end."""
        self.cut.clear()
        self.mute.clear()

    def ring(self) -> None:
        """A connection may have ended."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def next_change(self) -> None:
        """Wait until a connection may have ended."""
        await self._changed.wait()

    def is_down(self, node: str) -> bool:
        """Whether the machine is off, or gone."""
        machine = self._world.machines.get(node)
        return machine is None or not machine.is_up

    def is_cut(self, node: str) -> bool:
        """Whether operators hear nothing from the node."""
        return node in self.cut or node in self.mute

    def agent_at(self, url: str) -> AgentProcess | None:
        """The process that answers at this URL now."""
        for machine in self._world.machines.values():
            if machine.agent.url == url and machine.is_up:
                return machine.agent
        return None

    def agent_for(self, asking_node: str, url: str) -> AgentProcess | None:
        """The process at this URL as another node reaches it: operators' partitions do not count."""
        return self.agent_at(url)

    def agent_on(self, node: str) -> AgentProcess | None:
        """The agent of a node, for loaders."""
        machine = self._world.machines.get(node)
        return machine.agent if machine is not None and machine.is_up else None

    def way_seconds(self, random: Random) -> float:
        """One way, this time."""
        if random.random() < self.faults.slow_rate:
            return random.uniform(0.5, self.faults.slowest_seconds)
        return random.uniform(0.002, 0.05)

    def carry_out(self, random: Random, url: str, order: Callable[[AgentProcess], Answer]) -> Answer:
        """An order's way to the agent and back: it may be lost, arrive late, twice, or be carried out half."""
        agent = self.agent_at(url)
        if agent is None or agent.node in self.cut:
            raise Unreachable(f"no connection to {url}")
        fate = random.choice(ORDER_FATES) if random.random() < self.faults.order_rate else ""
        later = random.uniform(0, self.faults.latest_seconds)
        if agent.node in self.hold_orders_to:
            fate, later = "late", self.hold_orders_to[agent.node]
        if fate:
            self._world.note(f"an order to {agent.node} is {fate}")
        if agent.node == self.repeat_orders_to or math.isinf(later):
            self._kept.append(partial(self._carry_out_later, url, order))
        elif fate in ("late", "twice"):
            self._world.loop.call_later(later, self._carry_out_later, url, order)
        if fate in ("lost", "late"):
            raise Unreachable("no answer")
        if fate == "half":
            agent.ends_after_files = random.randint(0, 3)
        answer = self._carry_out(agent, order)
        if fate == "unanswered" or agent.node in self.mute:
            raise Unreachable("no answer")
        return answer

    def _carry_out(self, agent: AgentProcess, order: Callable[[AgentProcess], Answer]) -> Answer:
        try:
            answer = order(agent)
        except AgentDied:
            self._world.restart_agent(agent.node)
            raise Unreachable("the connection was closed") from None
        if agent.ends_after_files is not None:
            self._world.restart_agent(agent.node)
        return answer

    @property
    def kept_orders(self) -> int:
        """How many were kept back."""
        return len(self._kept)

    def deliver_kept(self) -> None:
        """Orders that were kept back arrive now."""
        kept, self._kept = self._kept, []
        for deliver in kept:
            deliver()

    def _carry_out_later(self, url: str, order: Callable[[AgentProcess], Any]) -> None:
        agent = self.agent_at(url)
        if agent is None:
            return
        try:
            self._carry_out(agent, order)
        except AgentError as error:
            self._world.note(f"a late order to {agent.node} is refused: {error}")
        else:
            self._world.note(f"a late order to {agent.node} is carried out")


class QuestionChannel:
    """What ``colocation.kube.agent_channel.HttpChannel`` is to one operator: its questions, which agents may hold."""

    def __init__(self, world: "World", random: Random, operator: str, faults: "ApiFaults") -> None:
        self._world = world
        self._random = random
        self._operator = operator
        self._faults = faults

    async def send(self, url: str, call: Call, wait_seconds: float) -> tuple[int, bytes]:
        await asyncio.sleep(self._way_seconds())
        request = InventoryRequest.model_validate_json(call.body)
        revision = call.headers.get("If-None-Match", "").strip('"') or None
        agent = self._world.network.agent_at(url)
        if agent is None or agent.node in self._world.network.cut:
            await asyncio.sleep(CONNECT_SECONDS)
            raise Unreachable(f"no connection to {url}")
        asked_at = self._world.loop.elapsed
        report = await self._hold(agent, request, revision)
        question = agent.conversation.question
        self._world.checks.after_order(self._operator, request.term)
        await asyncio.sleep(self._way_seconds())
        if question is not None and (question.session, question.number) == (request.session, request.number):
            self._world.checks.orders.after_answer(self._operator, agent, question, asked_at)
        if report is None:
            return NOT_MODIFIED, b""
        return 200, report.model_dump_json(by_alias=True).encode()

    async def _hold(self, agent: AgentProcess, request: InventoryRequest, revision: str | None) -> AgentReport | None:
        """The answer, unless the connection ends before: at once with the process, later with the network."""
        network = self._world.network
        answer = asyncio.ensure_future(agent.answer(request, revision))
        try:
            while True:
                if agent.node in network.cut | network.mute or network.is_down(agent.node):
                    await asyncio.sleep(self._random.uniform(*DEAD_PEER_SECONDS))
                    if agent.node in network.cut | network.mute or network.is_down(agent.node):
                        raise Unreachable("the connection is dead")
                if not agent.is_alive:
                    raise Unreachable("the connection was closed")
                if answer.done():
                    return answer.result()
                ring = asyncio.ensure_future(network.next_change())
                await asyncio.wait({answer, ring}, return_when=asyncio.FIRST_COMPLETED)
                ring.cancel()
        except (StaleTerm, UnknownQuestion) as error:
            raise _answer_of(error) from error
        finally:
            answer.cancel()

    def _way_seconds(self) -> float:
        return self._world.network.way_seconds(self._random) + self._faults.frozen_seconds(self._world.loop.elapsed)

    async def close(self) -> None:
        """Nothing is open."""


class AgentCalls:
    """The part of ``AgentClient`` by which operators give orders, for one operator and one URL.

    Args:
        world: the cluster.
        random: of the operator.
        url: of the agent.
        operator: its name.
        before_write: called with each order; may kill the operator.
        after_write: called with each order that was carried out.
        faults: of the operator: it may stand still.
    """

    def __init__(
        self,
        world: "World",
        random: Random,
        url: str,
        operator: str,
        before_write: Callable[[str], bool],
        after_write: Callable[[str], None],
        faults: "ApiFaults",
    ) -> None:
        self._world = world
        self._random = random
        self.url = url
        self._operator = operator
        self._before_write = before_write
        self._after_write = after_write
        self._faults = faults

    def way_seconds(self) -> float:
        return self._world.network.way_seconds(self._random) + self._faults.frozen_seconds(self._world.loop.elapsed)

    def drop_bucket(
        self,
        namespace: str,
        directory: str,
        bucket: int,
        manifests: tuple[str, ...],
        grace_seconds: int,
        proof: DeletionProof,
    ) -> Removed:
        order = Order("drop", TablePath(namespace, directory), proof, manifests, bucket)
        self._world.checks.orders.before_drop_is_sent(self._operator, self.url, order)
        name = f"drop {directory} bucket {bucket}"
        return self._order(name, order, lambda one: one.drop_bucket(order, grace_seconds))

    def collect(
        self, namespace: str, directory: str, manifests: tuple[str, ...], grace_seconds: int, proof: DeletionProof
    ) -> Removed:
        order = Order("collect", TablePath(namespace, directory), proof, manifests)
        if self._world.network.agent_at(self.url) is not None:
            self._world.checks.orders.before_collect_is_sent(self._operator, self.url, order)
        return self._order(f"collect {directory}", order, lambda one: one.collect(order, grace_seconds))

    def recycle(self, namespace: str, directory: str, keep_seconds: int, proof: DeletionProof) -> None:
        order = Order("recycle", TablePath(namespace, directory), proof)
        self._world.checks.orders.before_recycle_is_sent(self._operator, order)
        self._order(f"recycle {directory}", order, lambda one: one.recycle(order, keep_seconds))

    def restore(self, namespace: str, directory: str, successor: str, term: int = 0) -> None:
        table = TablePath(namespace, directory)
        self._order(f"restore {directory}", None, lambda one: one.restore(table, successor, term))

    def recycled_schema(self, namespace: str, directory: str, manifest: str) -> RecycledSchema:
        agent = self._reach()
        schema = agent.recycled_schema(TablePath(namespace, directory), manifest)
        self._check_answer(agent)
        if schema is None:
            raise error_of_response(404, b'{"error": "ManifestMissing", "message": "it is not in the bin"}')
        return schema

    def close(self) -> None:
        """Nothing is open."""

    def _order(self, name: str, order: Order | None, act: Callable[[AgentProcess], Answer]) -> Answer:
        if not self._before_write(f"order {name}"):
            raise Unreachable("the operator is dead")
        checks = self._world.checks

        def checked(agent: AgentProcess) -> Answer:
            try:
                answer = _converse(lambda: act(agent))
            finally:
                self._after_write(f"order {name}")
            self._world.note(f"{self._operator}: {name} on {agent.node}")
            if order is not None:
                checks.after_order(self._operator, order.proof.term)
            return answer

        receiver = self._world.network.agent_at(self.url)
        if order is not None and receiver is not None:
            checks.orders.after_order_is_sent(receiver.node, order)
        answer = self._world.network.carry_out(self._random, self.url, checked)
        if order is not None and receiver is not None:
            checks.orders.after_order_is_answered(receiver.node, order)
        return answer

    def _reach(self) -> AgentProcess:
        agent = self._world.network.agent_at(self.url)
        if agent is None or agent.node in self._world.network.cut:
            raise Unreachable(f"no connection to {self.url}")
        return agent

    def _check_answer(self, agent: AgentProcess) -> None:
        if agent.node in self._world.network.mute:
            raise Unreachable("no answer")


def _converse(work: Callable[[], Answer]) -> Answer:
    """Errors as the agent's HTTP server tells them."""
    try:
        return work()
    except DiskFailed as error:
        body = json.dumps({"error": str(error), "message": "use another node"}).encode()
        raise error_of_response(507, body) from error
    except (StaleTerm, StaleOrder, UnknownQuestion, ManifestAway) as error:
        raise _answer_of(error) from error


def _answer_of(error: Exception) -> AgentError:
    reason = "ManifestMissing" if isinstance(error, ManifestAway) else type(error).__name__
    term = {"term": error.term} if isinstance(error, StaleTerm) else {}
    return error_of_response(409, json.dumps({"error": reason, "message": str(error), **term}).encode())
