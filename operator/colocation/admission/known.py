"""What the operator knows at the moment when it is asked."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from ..model.reader_rules import CURRENT, Freshness
from ..model.snapshot import Snapshot
from ..state.membership import Membership, memberships
from ..state.memo import Memo
from ..state.objects import ObservedGroup, ObservedTable
from ..state.observation import Observation

Named = TypeVar("Named", ObservedGroup, ObservedTable)


@dataclass(frozen=True)
class Known:
    """The groups and tables as the watches report them, and the nodes of the last pass's snapshot.

    ``data_root`` and ``spark_image`` (or None) are the installation's. ``freshness``: whether the verdicts in the
    groups' status hold; they do not while this operator does not lead. ``memo``: saves work, and changes nothing.

    Questions that come while nothing changes share one of these, in one thread at a time.
    """

    now: datetime
    groups: tuple[ObservedGroup, ...]
    tables: tuple[ObservedTable, ...]
    snapshot: Snapshot
    data_root: str
    spark_image: str | None = None
    freshness: Freshness = CURRENT
    memo: Memo = field(default_factory=Memo, compare=False)

    @cached_property
    def membership(self) -> Membership:
        """Which tables are in which group: what the operator's next pass will find."""
        return memberships(Observation(now=self.now, groups=self.groups, tables=self.tables), self.memo)

    @cached_property
    def ready_nodes(self) -> frozenset[str]:
        """Those whose agents were ready in the last pass."""
        return frozenset(node.name for node in self.snapshot.nodes if node.ready)

    def group(self, namespace: str, name: str) -> ObservedGroup | None:
        """The group of this name."""
        return next((group for group in self.groups if group.key == (namespace, name)), None)

    def with_group(self, group: ObservedGroup) -> "Known":
        """As it were if this group were there, instead of the one of its name."""
        return replace(self, groups=(*_others(self.groups, group), group), memo=self._memo_of_another())

    def with_table(self, table: ObservedTable) -> "Known":
        """As it were if this table were there, instead of the one of its name."""
        return replace(self, tables=(*_others(self.tables, table), table), memo=self._memo_of_another())

    def _memo_of_another(self) -> Memo:
        """With what was found of the objects that are the same there."""
        _ = self.membership
        return self.memo.branch()


def _others(known: Iterable[Named], one: Named) -> list[Named]:
    key = (one.identity.namespace, one.identity.name)
    return [other for other in known if (other.identity.namespace, other.identity.name) != key]
