"""The planner's output: what is true of each group, where it should go, and which steps may be taken now."""

from typing import Literal

from pydantic import Field

from .base import Frozen
from .group import BucketSequence, Proposal

MoveKind = Literal["place", "repair", "balance", "drain"]


class BucketProblem(Frozen):
    """Why a bucket is unstable or cannot be moved."""

    bucket: int
    reason: str
    message: str = ""
    since: str | None = None


class Move(Frozen):
    """One replica that has to be made on ``to``; ``source`` ('from') is the replica given up for it, or None.

    A move from a node to itself makes damaged or missing files whole in place.
    """

    bucket: int
    source: str | None = Field(alias="from")
    to: str
    kind: MoveKind
    reason: str
    bytes: int


class Drop(Frozen):
    """A replica that is safe to delete now: not in the map, and the bucket's mapped replicas are all complete."""

    bucket: int
    node: str
    reason: str


class Evenness(Frozen):
    """Replicas per unit of weight over the nodes that may hold buckets: max minus min."""

    before: float
    after: float


class NodeLoad(Frozen):
    """What one node has of a group in its map, before and after the whole plan.

    ``share``: the replicas that it should have by its weight; 0 when it may neither take any nor keep what it has.
    """

    node: str
    weight: float
    share: float
    replicas_before: int
    replicas_after: int
    bytes_before: int
    bytes_after: int


class Expectation(Frozen):
    """What a group's plan comes to. ``bytes_to_copy``: of all moves together. ``nodes``: by name."""

    bytes_to_copy: int
    nodes: tuple[NodeLoad, ...]


class GroupPlan(Frozen):
    """One group's part of a plan.

    ``moves``: the whole way to ``target_map``. ``start_now``: indexes into ``moves`` that the limits allow at once.
    ``next_map``: the map to write now, None when it does not change; a replica enters it only complete, and the one
    it succeeds leaves in the same step. ``drops``: replicas safe to delete now, against the *current* map.
    ``cancel``: indexes into the snapshot's clones that are no longer wanted. ``blocked``: why buckets cannot be moved
    now; ``stalled``: the cause that keeps the group from its target until an administrator acts, or a failing node is
    tried again. ``proposal``: balance moves that await approval, which are not in ``moves``; or approved ones: those
    still to make are in ``moves``. ``expected``: of previews only. ``is_judged`` False: the planner failed, and nothing
    is known; ``stable`` and ``reason`` are then no verdict, and the last one stands.
    """

    namespace: str
    name: str
    stable: bool
    reason: str
    message: str = ""
    unstable_buckets: tuple[BucketProblem, ...] = ()
    target_map: BucketSequence | None = None
    next_map: BucketSequence | None = None
    moves: tuple[Move, ...] = ()
    start_now: tuple[int, ...] = ()
    blocked: tuple[BucketProblem, ...] = ()
    drops: tuple[Drop, ...] = ()
    cancel: tuple[int, ...] = ()
    stalled: BucketProblem | None = None
    evenness: Evenness | None = None
    proposal: Proposal | None = None
    expected: Expectation | None = None
    is_judged: bool = True


class Plan(Frozen):
    groups: tuple[GroupPlan, ...] = ()

    def find_group(self, key: tuple[str, str]) -> GroupPlan | None:
        """What is planned for the group of this namespace and name; None when nothing is said of it."""
        return next((one for one in self.groups if (one.namespace, one.name) == key), None)
