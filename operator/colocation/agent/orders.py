"""Pure: whether a deletion may be carried out here and now, from its proof and what this agent was asked last.

Safety: an order deletes nothing when what it was decided on does not hold any more. It may have been decided long ago
(it is void after a moment on this process's own clock), from another process's report (``instance``), by an operator
that was replaced (``term``), or before the table moved, was made anew or got another snapshot (the newest question says
so).
"""

from dataclasses import dataclass
from typing import Literal

from colocation.model.agent import AskedTable, DeletionProof
from colocation.storage.paths import TablePath

from .question import Question


@dataclass(frozen=True)
class Order:
    """A deletion: of a bucket's files or of garbage (both keep or name ``manifests``), or of a folder into the bin."""

    kind: Literal["drop", "collect", "recycle"]
    table: TablePath
    proof: DeletionProof
    manifests: tuple[str, ...] = ()
    bucket: int | None = None


@dataclass(frozen=True)
class Here:
    """What an order is checked against: this process, its clock, and the newest question (None: none was asked)."""

    instance: str
    uptime_seconds: float
    question: Question | None


def untrue_part(order: Order, here: Here) -> str | None:
    """The first part of the order's proof that is not true here, in words; None when all of it is."""
    proof = order.proof
    if proof.instance != here.instance:
        return f"it was decided from a report of agent process {proof.instance!r}, and this is {here.instance!r}"
    if here.uptime_seconds > proof.not_after_seconds:
        late = here.uptime_seconds - proof.not_after_seconds
        return f"it was to be carried out until {proof.not_after_seconds:.1f} s of uptime, {late:.1f} s ago"
    if here.question is None:
        return "this agent was not asked about any table yet"
    asked = here.question.tables.get(str(order.table))
    if order.kind == "recycle":
        return None if asked is None else f"the newest question names {order.table}: it is a table that is wanted"
    if asked is None:
        return f"the newest question does not name {order.table}"
    return _other_epoch(order, asked) or _other_manifests(order, asked)


def _other_epoch(order: Order, asked: AskedTable) -> str | None:
    proof = order.proof
    for what, ordered, newest in (
        ("table uid", proof.table_uid, asked.uid),
        ("group uid", proof.group_uid, asked.group_uid),
        ("map version", proof.map_version, asked.map_version),
    ):
        if ordered != newest:
            return f"it was decided for {what} {ordered!r}, and the newest question says {newest!r}"
    return None


def _other_manifests(order: Order, asked: AskedTable) -> str | None:
    live = asked.reference.live_manifests
    if not live:
        return f"the newest question calls no manifest of {order.table} live, so nothing is known to be garbage"
    unnamed = [sha256 for sha256 in live if sha256 not in order.manifests]
    return f"the newest question calls manifest {unnamed[0]} live, which the order does not name" if unnamed else None
