"""What must be true of every order that deletes: when it is sent, and when an agent carries it out.

Each safety check of operators and agents is one of several that stand behind each other, so a missing one seldom does
harm by itself. Here each is looked at by itself: what the operator has read and heard before it sends an order, and
what the agent knows when it obeys.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from colocation.agent.conversation import Order, Question
from colocation.kube.api import TABLES, Resource
from colocation.model.agent import AskedTable
from colocation.reconcile.evidence import ORDER_VALIDITY_SECONDS

if TYPE_CHECKING:
    from .agents import AgentProcess
    from .api import JsonObject
    from .world import World

ObjectKey = tuple[Resource, str, str]
MOST_REMEMBERED = 20
"""Answers of one agent to one operator: a group is read, and an order sent, within fewer."""


class OrderChecks:
    """Follows what each process of an operator reads and hears.

    Args:
        world: the cluster.
        require: fails the run when its first argument is not true.
    """

    def __init__(self, world: "World", require: Callable[[object, str], None]) -> None:
        self._world = world
        self._require = require
        self._read: dict[str, dict[ObjectKey, JsonObject | None]] = {}
        self._statuses: dict[tuple[str, str, int | None], tuple[float, JsonObject]] = {}
        self._heard: dict[str, dict[str, tuple[float, Question]]] = {}
        self._heard_before: dict[tuple[str, str], deque[tuple[float, Question]]] = {}
        self._maps: dict[tuple[str, int], tuple[float, list[list[str]]]] = {}
        self._terms: dict[str, int] = {}
        self._members: dict[tuple[str, str], tuple[bool, float]] = {}
        self._leading_term = 0
        self._sent: dict[tuple[str, str, int | None], tuple[float, int]] = {}

    # What happens

    def after_lease_write(self, body: "JsonObject") -> None:
        """The term of who leads now."""
        self._leading_term = int(body["spec"].get("leaseTransitions") or 0) + 1

    def after_restore(self) -> None:
        """etcd is as it was some minutes ago. Orders of before are too late, and operators are others."""
        for known in (self._maps, self._members, self._sent, self._statuses, self._read):
            known.clear()

    def after_order_is_sent(self, node: str, order: Order) -> None:
        """It may be carried out for a while, and not after the deadline that it names on the agent's own clock."""
        now, agent = self._world.loop.elapsed, self._world.machines[node].agent.conversation
        is_same = agent.instance == order.proof.instance
        left = order.proof.not_after_seconds - agent.uptime_seconds if is_same else 0.0
        ends_at = now + min(left, ORDER_VALIDITY_SECONDS)
        self._sent[node, order.table.directory, order.bucket] = ends_at, order.proof.term

    def after_order_is_answered(self, node: str, order: Order) -> None:
        """The operator knows that it has ended; another report has to come yet."""
        self._sent.pop((node, order.table.directory, order.bucket), None)

    def before_entry(self, node: str, directory: str, bucket: int) -> None:
        """No replica enters a map while an order of this leader's that deletes it may still be carried out."""
        ends_at, term = self._sent.get((node, directory, bucket), (-math.inf, 0))
        is_open = term == self._leading_term and self._world.loop.elapsed < ends_at
        self._require(not is_open, f"bucket {bucket} of {directory} enters the map on {node}, and was ordered to go")

    def after_group_write(self, body: "JsonObject") -> None:
        """A map counts from when it is there; only what was said since then names where its replicas are."""
        status = body.get("status", {})
        rows, version = status.get("backendsPerBucketSeq"), status.get("mapVersion")
        if rows is not None and version is not None:
            self._maps.setdefault((body["metadata"]["uid"], version), (self._world.loop.elapsed, rows))
        members = {one["uid"]: bool(one.get("leaving")) for one in status.get("members", ())}
        group_uid = body["metadata"]["uid"]
        for key in [key for key in self._members if key[0] == group_uid and key[1] not in members]:
            del self._members[key]
        for uid, leaving in members.items():
            if self._members.get((group_uid, uid), (None, 0.0))[0] != leaving:
                self._members[group_uid, uid] = leaving, self._world.loop.elapsed

    def _member_since(self, group_uid: str | None, table_uid: str, leaving: bool) -> float:
        """Since when the group names the table as a member that stays, or that leaves; infinity: it does not."""
        known, since = self._members.get((group_uid or "", table_uid), (None, 0.0))
        return since if known == leaving else math.inf

    def before_arrival(self, table_uid: str, group_uid: str, new_group_uid: str, nodes: Iterable[str]) -> None:
        """Nodes that a table moves to have answered since its old group deletes nothing of it any more. A table that
        turns back before the old group has ever counted it never left the new one.
        """
        if (group_uid, table_uid) not in self._members and (new_group_uid, table_uid) in self._members:
            return
        since = self._member_since(group_uid, table_uid, leaving=True)
        for node in nodes:
            asked_at = max((heard[node][0] for heard in self._heard.values() if node in heard), default=-math.inf)
            self._require(asked_at >= since, f"table {table_uid} moves to {node}, where its old group may delete it")

    def after_read(self, operator: str, resource: Resource, key: tuple[str, str], body: "JsonObject | None") -> None:
        """An operator has looked at an object; None: there is none."""
        self._read.setdefault(operator, {})[resource, *key] = body
        if body is not None:
            uid, status = body["metadata"]["uid"], body.get("status", {})
            self._statuses[operator, uid, status.get("mapVersion")] = self._world.loop.elapsed, status

    def after_answer(self, operator: str, agent: "AgentProcess", question: Question, asked_at: float) -> None:
        """An operator hears an agent's answer to its question."""
        self._heard.setdefault(operator, {})[agent.node] = asked_at, question
        before = self._heard_before.setdefault((operator, agent.node), deque(maxlen=MOST_REMEMBERED))
        before.append((asked_at, question))

    def after_term(self, agent: "AgentProcess", term: int) -> None:
        """An agent obeys or answers an operator of this term."""
        instance = agent.conversation.instance
        newest = self._terms.get(instance, 0)
        self._require(term >= newest, f"{agent.node} knows of term {newest}, and hears one of {term}")
        self._terms[instance] = term

    # Before an order is sent

    def before_collect_is_sent(self, operator: str, url: str, order: Order) -> None:
        """The agent was asked about just these snapshots, and answered. Newer questions may overtake the order: the
        agent refuses it then.
        """
        agent = self._world.network.agent_at(url)
        known = self._heard_before.get((operator, agent.node if agent else ""), ())
        asked = [found for _, question in list(known)[-3:] if (found := question.tables.get(str(order.table)))]
        live = [{one.reference.manifest, *one.reference.retained_manifests} - {None} for one in asked]
        named = {*order.manifests}
        self._require(named in live, f"{operator} collects {order.table} but for {named}, and asked about {live}")

    def before_drop_is_sent(self, operator: str, url: str, order: Order) -> None:
        """The order's map was read again; all its nodes reported since, of just this snapshot: the newest one when the
        order was decided. No one need be heard of a bucket in which it has no file.

        While the order is on its way the operator may write the next map: the node enters none as long as the order
        may be carried out (``before_entry``).
        """
        key, proof = (order.table.namespace, order.table.directory), order.proof
        read_at, status = self._statuses.get((operator, proof.group_uid or "", proof.map_version), (-math.inf, {}))
        age = self._world.loop.elapsed - read_at
        self._require(
            age <= ORDER_VALIDITY_SECONDS,
            f"{operator} drops {key} by map {proof.map_version}, and has read it {age:.0f} s ago",
        )
        if self._world.table_at(key) is None:
            return  # it was dropped since: its agent, which is asked about it no longer, refuses the order
        leaving = {one["uid"] for one in status.get("members", ()) if one.get("leaving")}
        self._require(proof.table_uid not in leaving, f"{operator} drops {key}, which leaves the group")
        self._check_what_the_agent_was_asked(operator, url, order)
        since, rows = self._maps[proof.group_uid or "", proof.map_version]
        since = max(since, self._member_since(proof.group_uid, proof.table_uid, leaving=False))
        for node in rows[order.bucket] if order.bucket is not None and order.bucket < len(rows) else ():
            known = self._heard_before.get((operator, node), ())
            heard = [question.tables.get("/".join(key)) for asked_at, question in known if asked_at >= since]
            self._require(bool(heard), f"{operator} drops {key} and has not heard {node} since its map is so")
            is_empty = all(file.bucket != order.bucket for file in self._world.manifests[order.manifests[0]])
            self._require(
                is_empty or any(one is not None and one.reference.manifest == order.manifests[0] for one in heard),
                f"{operator} drops {key}, and {node} was not asked about that snapshot",
            )

    def _check_what_the_agent_was_asked(self, operator: str, url: str, order: Order) -> None:
        """The map of the order, by the newest question that it heard the answer of.

        While the order waits for its agent the next question may overtake it: the agent refuses it then. Even so it was
        right when the group was read.
        """
        agent, proof, table = self._world.network.agent_at(url), order.proof, str(order.table)
        if agent is None:
            return
        known = self._heard_before.get((operator, agent.node), ())
        read_at, _ = self._statuses.get((operator, proof.group_uid or "", proof.map_version), (-math.inf, {}))
        counting = [question for asked_at, question in known if asked_at <= read_at][-1:] or [None]
        asked = [one.tables.get(table) if one else None for one in (*counting, known[-1][1] if known else None)]
        epochs = [(one.group_uid, one.map_version) if one else None for one in asked]
        self._require(
            (proof.group_uid, proof.map_version) in epochs,
            f"{operator} drops {table} by map {proof.map_version}, and its agent was asked for {epochs}",
        )

    def before_recycle_is_sent(self, operator: str, order: Order) -> None:
        """The table was looked for, and is not there."""
        key = (order.table.namespace, order.table.directory)
        name = (TABLES, key[0], key[1].rpartition("-")[0])
        read = self._read.get(operator, {})
        self._require(name in read, f"{operator} recycles {key} without having looked for the table")
        body = read.get(name)
        is_there = body is not None and key[1].endswith(body["metadata"]["uid"].replace("-", "")[:8])
        self._require(not is_there, f"{operator} recycles {key}, and has read that the table exists")

    # Before an order is carried out

    def before_work(self, agent: "AgentProcess", order: Order) -> None:
        """The order is for this process, young enough, of the newest term, and of what the agent was asked last."""
        conversation, proof = agent.conversation, order.proof
        name = f"order to {order.kind} {order.table} on {agent.node}"
        self._require(proof.instance == conversation.instance, f"{name} is for another process")
        late = conversation.uptime_seconds - proof.not_after_seconds
        self._require(late <= 0, f"{name} is {late:.0f} s late")
        self.after_term(agent, proof.term)
        tables = conversation.question.tables if conversation.question else {}
        asked = tables.get(str(order.table))
        if order.kind == "recycle":
            self._require(asked is None, f"{name}: the agent knows that it is wanted")
            return
        self._require(asked is not None, f"{name}: the agent was not asked about it")
        if asked is not None:
            self._check_epoch(name, order, asked)

    def _check_epoch(self, name: str, order: Order, asked: AskedTable) -> None:
        proof, reference = order.proof, asked.reference
        epoch = (proof.table_uid, proof.group_uid, proof.map_version)
        self._require(epoch == (asked.uid, asked.group_uid, asked.map_version), f"{name} is of another epoch: {epoch}")
        live = {reference.manifest, *reference.retained_manifests} - {None}
        self._require(live, f"{name}: the agent knows of no live manifest")
        self._require(live.issubset(order.manifests), f"{name} does not name all of {live}")

