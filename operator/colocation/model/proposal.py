"""A proposal: the balance moves of a group that wait for somebody's approval, and the id that an approval names."""

import hashlib
import json
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from .base import Observed
from .times import Time

Approval = Literal["automatic", "manual"]
MAX_PROPOSED_MOVES = 200
"""Of one proposal: it lies in the group's status, in full. What is beyond comes with the next proposal."""
ID_DIGITS = 16


class ProposedMove(Observed):
    """One replica that would move."""

    bucket: int
    source: str | None = Field(None, alias="from", description="The node that gives the replica up.")
    to: str = Field(description="The node that takes it.")
    bytes: int = Field(0, description="Bytes to copy, when the proposal was made.")


class Proposal(Observed):
    """Balance moves that are held until they are approved by name.

    The id is a digest of the group, the time and the moves: no two proposals have one id, so an approval is good for
    what was looked at, once.
    """

    id: str = Field(description="Digest of the proposal; an approval names it.")
    made_at: Time = Field(description="RFC 3339, UTC.")
    reason: str = Field(description="Why the replicas would move, in one word.")
    approved: bool = Field(False, description="Whether it was approved; the moves are then made.")
    replicas: int = Field(description="How many replicas would move.")
    bytes: int = Field(description="Bytes to copy, when the proposal was made.")
    moves: tuple[ProposedMove, ...] = ()

    @property
    def keys(self) -> frozenset[tuple[int, str | None, str]]:
        """The moves, as (bucket, from, to)."""
        return frozenset((move.bucket, move.source, move.to) for move in self.moves)

    def is_of(self, group: tuple[str, str]) -> bool:
        """Whether the id is that of this content, and of this group."""
        return self.id == _digest(group, self.made_at, self.moves)


def make_proposal(group: tuple[str, str], made_at: str, reason: str, moves: Iterable[ProposedMove]) -> Proposal:
    """A proposal of these moves for the group (namespace, name)."""
    kept = tuple(moves)
    return Proposal(
        id=_digest(group, made_at, kept),
        made_at=made_at,
        reason=reason,
        replicas=len(kept),
        bytes=sum(move.bytes for move in kept),
        moves=kept,
    )


def _digest(group: tuple[str, str], made_at: str, moves: tuple[ProposedMove, ...]) -> str:
    content = [*group, made_at, [[move.bucket, move.source, move.to, move.bytes] for move in moves]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:ID_DIGITS]


def awaiting_message(group: tuple[str, str], proposal: Proposal) -> str:
    """What to say of a proposal of the group (namespace, name) that is not approved; the same in conditions, events
    and commands.
    """
    namespace, name = group
    replicas = f"{proposal.replicas} replica{'' if proposal.replicas == 1 else 's'}"
    return (
        f"proposal {proposal.id} moves {replicas}, {proposal.bytes} bytes; nothing moves until it is approved: "
        f"colocation approve {name} -n {namespace} --proposal {proposal.id}"
    )


def approved_message(proposal: Proposal) -> str:
    """What to say of a proposal that somebody has just approved."""
    moves = "1 replica moves" if proposal.replicas == 1 else f"{proposal.replicas} replicas move"
    return f"proposal {proposal.id}: {moves}"
