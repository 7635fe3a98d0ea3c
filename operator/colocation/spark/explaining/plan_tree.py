"""A physical plan as plain values: what ``explain`` needs of it and nothing of Spark's objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field

INTERNAL_SHUFFLES = frozenset({"TakeOrderedAndProject", "CollectLimit", "CollectTail"})
"""Operators that bring all rows into one partition by a shuffle of their own, without an Exchange in the plan."""
PARTITION_MERGES = frozenset({"Coalesce"})
"""Operators that put several partitions into one: a task then reads buckets of several nodes."""

MERGE_SOURCE = "MergeSource"
"""The rows of a MERGE's source that is computed before the queries that join it."""


@dataclass(frozen=True)
class Expression:
    """A key of an operator: ``attribute`` is its id when it is a plain column, None when it is computed."""

    text: str
    attribute: int | None


@dataclass(frozen=True)
class Scan:
    """A file scan. ``columns`` are its output columns' names by attribute id.

    ``note``: what the catalog in Java decided of the table, as JSON; empty for tables that it did not plan.
    """

    location: str
    table: str
    bucketed: bool
    columns: dict[int, str]
    note: str = ""


@dataclass(frozen=True)
class Join:
    """A join. ``algorithm`` is Spark's name without ``Exec``, e.g. ``SortMergeJoin``.

    Attributes:
        left_keys: equal to ``right_keys``, one by one; empty for joins without equality.
        hint: the strategy that the query names; empty when it names none.
        broadcast_side: 0 or 1 for the child that is copied to all executors, else None.
        broadcast_bytes: Spark's estimate of that side.
        broadcast_threshold_bytes: up to which size Spark broadcasts by itself; negative = never.
        null_aware: ``NOT IN``: one NULL on the other side decides about all rows.
    """

    algorithm: str
    type: str
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    hint: str = ""
    broadcast_side: int | None = None
    broadcast_bytes: int | None = None
    broadcast_threshold_bytes: int | None = None
    null_aware: bool = False


@dataclass(frozen=True)
class Grouping:
    """An operator that needs all rows of equal keys in one partition: an aggregate (DISTINCT too) or a window.

    Attributes:
        algorithm: Spark's name without ``Exec``, e.g. ``HashAggregate``.
        kind: ``aggregate`` or ``window``.
        keys: GROUP BY or PARTITION BY; empty = all rows in one partition.
        logical_id: the same for all physical phases of one aggregate of the query.
    """

    algorithm: str
    kind: str
    keys: tuple[Expression, ...]
    logical_id: int


@dataclass(frozen=True)
class PlanNode:
    """One operator.

    Attributes:
        aliases: attribute ids that it renames to, and from which id (None = computed).
        shuffle_origin: of a shuffle: why Spark made it, in Spark's words.
        reused: this node's rows are those of an equal node elsewhere in the plan, or were cached: what is below it is
            not done again.
    """

    name: str
    children: tuple["PlanNode", ...] = ()
    subqueries: tuple["PlanNode", ...] = ()
    scan: Scan | None = None
    join: Join | None = None
    grouping: Grouping | None = None
    aliases: dict[int, int | None] = field(default_factory=dict)
    shuffle_origin: str = ""
    reused: bool = False

    @property
    def is_shuffle(self) -> bool:
        """Whether rows go over the network to another partition here."""
        return self.name == "ShuffleExchange"

    @property
    def redistributes(self) -> bool:
        """Whether a row's bucket no longer determines its partition from here on."""
        return self.is_shuffle or self.name in INTERNAL_SHUFFLES or self.name in PARTITION_MERGES

    def walk(self) -> Iterator["PlanNode"]:
        """This node and all that runs below it, subqueries too, parents first; what is reused counts where it ran."""
        yield self
        if not self.reused:
            for child in (*self.children, *self.subqueries):
                yield from child.walk()

    def inputs(self) -> Iterator["PlanNode"]:
        """This node and all that its rows come from, reused or not, parents first."""
        yield self
        for child in self.children:
            yield from child.inputs()

    def partitioned_by(self, *, through_shuffles: bool = False) -> Iterator["PlanNode"]:
        """The operators that decide in which partition a row is, parents first: not the broadcast sides of joins.

        Args:
            through_shuffles: go on below the first operators that redistribute rows.
        """
        yield self
        if self.redistributes and not through_shuffles:
            return
        for index, child in enumerate(self.children):
            if self.join is None or self.join.broadcast_side != index:
                yield from child.partitioned_by(through_shuffles=through_shuffles)
