"""A physical plan as plain values: what ``explain`` needs of it and nothing of Spark's objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Expression:
    """A join key: ``attribute`` is its id when it is a plain column, None when it is computed."""

    text: str
    attribute: int | None


@dataclass(frozen=True)
class Scan:
    """A file scan. ``columns`` are its output columns' names by attribute id."""

    location: str
    table: str
    bucketed: bool
    columns: dict[int, str]


@dataclass(frozen=True)
class Join:
    """A join. ``algorithm`` is Spark's name without ``Exec``, e.g. ``SortMergeJoin``.

    Attributes:
        left_keys: equal to ``right_keys``, one by one; empty for joins without equality.
        hinted: the query names the strategy.
        broadcast_side: 0 or 1 for the child that is copied to all executors, else None.
        broadcast_bytes: Spark's estimate of that side.
    """

    algorithm: str
    type: str
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    hinted: bool = False
    broadcast_side: int | None = None
    broadcast_bytes: int | None = None


@dataclass(frozen=True)
class PlanNode:
    """One operator. ``aliases``: attribute ids that it renames to, and from which id (None = computed)."""

    name: str
    children: tuple["PlanNode", ...] = ()
    subqueries: tuple["PlanNode", ...] = ()
    scan: Scan | None = None
    join: Join | None = None
    aliases: dict[int, int | None] = field(default_factory=dict)

    @property
    def is_shuffle(self) -> bool:
        """Whether rows change their partition here."""
        return self.name == "ShuffleExchange"

    def walk(self) -> Iterator["PlanNode"]:
        """This node and all below it, subqueries too, parents first."""
        yield self
        for child in (*self.children, *self.subqueries):
            yield from child.walk()
