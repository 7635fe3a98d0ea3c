"""Which rows each table may hold, after all that was done to it.

A write whose outcome is unknown branches the model: it happened, or it did not, or it may yet happen. A read that shows
what it saw closes the branches that it contradicts. As in Jepsen, nothing is forgotten as long as it may still land.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from .rows import SHIFT, Content, cells, is_changed


@dataclass(frozen=True)
class Write:
    """A change of a table's rows.

    Attributes:
        name: ``create``, ``append``, ``overwrite``, ``overwrite-partitions``, ``drop-partitions``, ``update``,
            ``delete``, ``merge``, ``drop`` or ``recover``; with any other (``compact``, …) rows stay as they are.
        table: its name.
        parts: partitions that it touches.
        batch: of the rows that it brings.
    """

    name: str
    table: str
    parts: tuple[int, ...] = ()
    batch: int = 0


@dataclass(frozen=True)
class Branch:
    """One possible state of a table. ``content``: None = there is no such table; ``binned``: in the recycle bin;
    ``landed``: those of the open writes that happened.
    """

    content: Content | None = None
    binned: Content | None = None
    landed: frozenset[int] = frozenset()


Seen = frozenset[Content | None]


def apply(write: Write, before: Branch) -> Branch:
    """The state after a write; one that cannot happen there (a load into no table) changes nothing."""
    content, binned = before.content, before.binned
    if write.name == "create":
        return replace(before, content=frozenset()) if content is None else before
    if write.name == "recover":
        return replace(before, content=binned, binned=None) if content is None and binned is not None else before
    if content is None:
        return before
    if write.name == "drop":
        return replace(before, content=None, binned=content)
    return replace(before, content=_changed(write, content))


def _changed(write: Write, content: Content) -> Content:
    new = cells(write.parts, write.batch)
    untouched = frozenset(cell for cell in content if cell[0] not in write.parts)
    left = frozenset(cell for cell in content if not is_changed(cell, write.parts, write.batch))
    changes: dict[str, Callable[[], Content]] = {
        "append": lambda: content | new,
        "overwrite": lambda: new,
        "overwrite-partitions": lambda: untouched | new,
        "drop-partitions": lambda: untouched,
        "update": lambda: left | frozenset((part, batch + SHIFT) for part, batch in content - left),
        "delete": lambda: left,
        "merge": lambda: left | new,
    }
    return changes.get(write.name, lambda: content)()


@dataclass
class _Read:
    """A read that runs: what it may see, and whether anything was decided meanwhile."""

    seen: set[Content | None]
    is_quiet: bool = True


@dataclass
class TableModel:
    """One table's possible states now (``branches``), closed under the writes that are still open."""

    branches: set[Branch] = field(default_factory=lambda: {Branch()})
    open: dict[int, Write] = field(default_factory=dict)
    _reads: dict[int, _Read] = field(default_factory=dict)
    _saving: set[Branch] | None = None
    _since: set[Branch] = field(default_factory=set)
    _lost: frozenset[Branch] = frozenset()
    _is_being_adopted: bool = False
    _doubtful: set[int] = field(default_factory=set)
    _proved: set[int] = field(default_factory=set)

    def contents(self) -> Seen:
        """What a read of this moment may see."""
        return frozenset(branch.content for branch in self.branches)

    def may_have_dropped_nothing(self, number: int) -> bool:
        """Whether no rows may have been in the recycle bin for this write, a recovery, to bring back."""
        return any(not branch.binned for branch in self.branches if number not in branch.landed)

    def may_be_there_already(self, number: int) -> bool:
        """Whether the table may have been there for this write, a recovery, which then brings nothing back."""
        return any(branch.content is not None for branch in self.branches if number not in branch.landed)

    # Writes

    def begin(self, number: int, write: Write) -> None:
        """A write is under way: from now on it may happen at any moment."""
        self.open[number] = write
        self._close()

    def happened(self, number: int) -> None:
        """The write was acknowledged. One that was open when the cluster was restored may have been before it."""
        if number in self._proved:
            return
        landed = {branch for branch in self.branches if number in branch.landed}
        self._decide(number, self.branches if number in self._doubtful else landed)

    def did_not_happen(self, number: int) -> None:
        """The write said that it changed nothing, and will not. No state is left when a read has shown its rows."""
        if number in self._proved:
            self.branches = set()
        self._decide(number, {branch for branch in self.branches if number not in branch.landed})

    def settle(self, number: int) -> None:
        """No one works on the write any more: it happened or it did not, but it will not from now on."""
        self._decide(number, self.branches)

    def _decide(self, number: int, branches: Iterable[Branch]) -> None:
        self.open.pop(number, None)
        for read in self._reads.values():
            read.is_quiet = False
        self.branches = {replace(branch, landed=branch.landed - {number}) for branch in branches}
        self._close()

    def _close(self) -> None:
        """Add every state that open writes may lead to."""
        todo = list(self.branches)
        while todo:
            branch = todo.pop()
            for number, write in self.open.items():
                if number not in branch.landed:
                    after = replace(apply(write, branch), landed=branch.landed | {number})
                    if after not in self.branches:
                        self.branches.add(after)
                        todo.append(after)
        for read in self._reads.values():
            read.seen |= self.contents()
        if self._saving is not None:
            self._saving |= self.branches
        self._since |= self.branches

    # Reads

    def begin_read(self, number: int) -> None:
        """A read is under way: it may see any state from now on, until it ends."""
        self._reads[number] = _Read(set(self.contents()))

    def end_read(self, number: int) -> tuple[Seen, bool]:
        """What the read may have seen; and whether nothing was decided meanwhile, so that what it saw can be taken for
        the present: see ``narrow``.
        """
        read = self._reads.pop(number)
        return frozenset(read.seen), read.is_quiet

    def narrow(self, content: Content | None) -> None:
        """A read has just seen this content: states that do not come from it are impossible."""
        self.branches = {branch for branch in self.branches if branch.content == content}
        if self._is_being_adopted:
            self.branches |= self._lost
        self._close()
        for number in list(self.open):
            if all(number in branch.landed for branch in self.branches):
                self.settle(number)
                self._proved.add(number)

    # Copies of the cluster's state (etcd)

    def begin_save(self) -> None:
        """A copy is taken, of any moment from now on."""
        self._saving, self._since = set(self.branches), set(self.branches)

    def end_save(self) -> frozenset[Branch]:
        """The copy is there: the states that it may hold."""
        saved, self._saving = frozenset(self._saving or ()), None
        return saved

    def restore(self, saved: Iterable[Branch]) -> None:
        """The cluster's state is that of the copy again."""
        still_open = frozenset(self.open)
        self._doubtful |= still_open
        self._lost = frozenset(replace(branch, landed=branch.landed & still_open) for branch in self._since)
        self.branches = {replace(branch, landed=branch.landed & still_open) for branch in saved} or {Branch()}
        for read in self._reads.values():
            read.is_quiet = False
        self._close()

    def begin_adopt(self) -> None:
        """What the disks hold is taken over, at a moment from now on: the table may then be as at any moment since the
        copy; or as it is now, if it was changed since the restore.
        """
        self._is_being_adopted = True
        self.branches |= self._lost
        for read in self._reads.values():
            read.is_quiet = False
        self._close()

    def end_adopt(self) -> None:
        """From now on nothing else is taken over."""
        self._is_being_adopted = False
        for read in self._reads.values():
            read.is_quiet = False
