"""What may be done to the files of a table in one commit: load rows, rewrite files, drop partitions. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from colocation.model.table_manifest import DataFile

Mode = Literal["append", "overwrite", "overwrite-partitions"]
MODES: tuple[Mode, ...] = ("append", "overwrite", "overwrite-partitions")

Partition = Mapping[str, str | None]
"""Partition columns and their values in Spark's string form; None is NULL. May name some of the columns only."""

PartitionKey = tuple[tuple[str, str | None], ...]
"""All of a partition's columns and values, by name."""


class Overtaken(Exception):
    """The committed files are no longer those that a change began on, and it may not go on top of them."""


class Change(Protocol):
    """One commit's difference.

    Attributes:
        name: for messages.
        files: new files, which the nodes must hold before the commit.
        buckets: number of buckets that the new files were made for; None when there are no new files.
        keeps_files: whether files that are there may stay, so that the new ones must be of their layout.
        goes_on_top: whether it may be applied to a snapshot that is newer than the one it began on.
    """

    @property
    def name(self) -> str: ...
    @property
    def files(self) -> tuple[DataFile, ...]: ...
    @property
    def buckets(self) -> int | None: ...
    @property
    def keeps_files(self) -> bool: ...
    @property
    def goes_on_top(self) -> bool: ...

    def kept(self, committed: Sequence[DataFile]) -> tuple[DataFile, ...]:
        """The committed files that stay.

        Raises:
            Overtaken: saying what is missing.
        """

    def check_overtaking(self, began_on: Sequence[DataFile], committed: Sequence[DataFile]) -> None:
        """Check that what was committed since the change began may stay beside it, or be replaced by it.

        Raises:
            Overtaken: saying what has changed.
        """


@dataclass(frozen=True)
class NewFiles:
    """A load. An append goes on top of whatever was committed meanwhile. An overwrite that was overtaken has lost; one
    of partitions has lost only if files came or went in those that it replaces.

    Attributes:
        mode: how it goes together with what is there.
        files: all of it.
        buckets: number of buckets that the files were made for.
    """

    mode: Mode
    files: tuple[DataFile, ...]
    buckets: int

    @property
    def name(self) -> str:
        return self.mode

    @property
    def keeps_files(self) -> bool:
        return self.mode != "overwrite"

    @property
    def goes_on_top(self) -> bool:
        return self.mode != "overwrite"

    def kept(self, committed: Sequence[DataFile]) -> tuple[DataFile, ...]:
        if self.mode == "append":
            return tuple(committed)
        if self.mode == "overwrite":
            return ()
        replaced = self._partitions()
        return tuple(file for file in committed if partition_key(file.partition) not in replaced)

    def check_overtaking(self, began_on: Sequence[DataFile], committed: Sequence[DataFile]) -> None:
        if self.mode == "append":
            return
        changed = dict.fromkeys(_in_one_only(began_on, committed))
        hit = [partition for partition in changed if partition in self._partitions()]
        if hit:
            values = ", ".join(f"{name}={value}" for name, value in hit[0])
            raise Overtaken(f"{len(hit)} of the partitions that it replaces were changed meanwhile, e.g. {values}")

    def _partitions(self) -> set[PartitionKey]:
        return {partition_key(file.partition) for file in self.files}


@dataclass(frozen=True)
class Rewrite:
    """A compaction: the rows of exactly these files, in other files.

    It goes on top of loads that were committed meanwhile, as long as every file that it read is still committed.

    Attributes:
        replaced: paths of the files that were read.
    """

    replaced: frozenset[str]
    files: tuple[DataFile, ...]
    buckets: int
    name: str = "compact"
    keeps_files: bool = True
    goes_on_top: bool = True

    def kept(self, committed: Sequence[DataFile]) -> tuple[DataFile, ...]:
        gone = self.replaced - {file.path for file in committed}
        if gone:
            raise Overtaken(
                f"{len(gone)} of the {len(self.replaced)} files that it read are no longer committed, e.g. {min(gone)}"
            )
        return tuple(file for file in committed if file.path not in self.replaced)

    def check_overtaking(self, began_on: Sequence[DataFile], committed: Sequence[DataFile]) -> None:
        """Whether its files are still there ``kept`` says."""


@dataclass(frozen=True)
class DropPartitions:
    """Partitions go with all rows that are in them at the commit, as with SQL's DROP PARTITION.

    Attributes:
        partitions: each entry drops every partition that has its values.
    """

    partitions: tuple[Partition, ...]
    files: tuple[DataFile, ...] = field(default=(), init=False)
    buckets: int | None = field(default=None, init=False)
    name: str = "drop partitions"
    keeps_files: bool = True
    goes_on_top: bool = True

    def kept(self, committed: Sequence[DataFile]) -> tuple[DataFile, ...]:
        return tuple(file for file in committed if not in_partitions(file, self.partitions))

    def check_overtaking(self, began_on: Sequence[DataFile], committed: Sequence[DataFile]) -> None:
        """It drops what it finds."""


def in_partitions(file: DataFile, partitions: Iterable[Partition]) -> bool:
    """Whether a file is in one of the partitions."""
    return any(all(file.partition[name] == value for name, value in chosen.items()) for chosen in partitions)


def _in_one_only(began_on: Sequence[DataFile], committed: Sequence[DataFile]) -> list[PartitionKey]:
    """The partitions of the files that came or went."""
    before, now = ({file.path: file for file in files} for files in (began_on, committed))
    return [partition_key((before.get(path) or now[path]).partition) for path in before.keys() ^ now.keys()]


def partition_key(partition: Partition) -> PartitionKey:
    """The values of a partition, whatever the order of its columns."""
    return tuple(sorted(partition.items(), key=lambda item: item[0]))
