"""What must hold at every moment, whatever the faults.

Faults may hit between an operator's look and its deed; no operator can know of these. So each check counts what faults
took within the last `RACE_REQUESTS` requests of all operators as if it were still there.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .disks import Disk, File
from .tables import directory_of

if TYPE_CHECKING:
    from .world import World

RACE_REQUESTS = 80
"""Some passes: the last word of a slow agent stands for as long."""


class Checks:
    """Raises AssertionError where an operator does harm."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._dropped: list[tuple[int, File]] = []
        self._maps: dict[tuple[str, str], tuple[int, list[list[str]]]] = {}

    def before_recycle(self, namespace: str, directory: str) -> None:
        """Only folders of tables that do not exist."""
        assert directory not in {directory_of(table) for table in self._world.tables()}, f"{directory} is in use"

    def before_delete(self, disk: Disk, doomed: Iterable[File]) -> None:
        """A committed file is deleted only while as many other nodes as the group has replicas hold it whole; one of a
        retained snapshot, while another node does.
        """
        committed, retained = self._world.committed_files(), self._world.retained_files()
        for file in doomed:
            if file in retained and file not in committed:
                others = [n for n, other in self._world.disks.items() if other is not disk and file in other.intact()]
                recent = set(self._recent_losses()) | {lost for at, lost in self._dropped if at >= self._since()}
                assert others or file in recent, f"{file} of a retained snapshot would be lost with {disk.node}"
                self._dropped.append((self._world.requests, file))
            if file not in committed:
                continue
            others = [name for name, other in self._world.disks.items() if other is not disk and file in other.intact()]
            recently = sum(lost == file for lost in self._recent_losses())
            needed = self._world.replicas_of(file, self._since())
            assert len(others) + recently >= needed, f"{file} would go from {disk.node}, and is on {others} only"
            self._dropped.append((self._world.requests, file))

    def before_purge(self, key: tuple[str, str]) -> None:
        """A recycled table goes when its time is over, and not before."""
        keep_until = self._world.keep_until.get(key[1])
        now = self._world.clock.now()
        assert keep_until is None or now >= keep_until, f"{key} is purged at {now}, to be kept until {keep_until}"

    def after_group_write(self, body: dict[str, Any]) -> None:
        """A map has no node twice in a bucket; its version grows with it; who enters it holds the bucket whole."""
        metadata, status = body["metadata"], body.get("status", {})
        key = metadata["namespace"], metadata["name"]
        rows, version = status.get("backendsPerBucketSeq"), status.get("mapVersion")
        if rows is None:
            return
        assert all(len(set(row)) == len(row) for row in rows), f"a node twice in a bucket: {rows}"
        before_version, before = self._maps.get(key, (0, None))
        self._maps[key] = version, rows
        if before is None or rows == before:
            return
        assert version > before_version, f"the map changed and its version {version} did not grow"
        if body["spec"]["balancing"]["strict"]:
            return  # the map goes ahead of the data
        for bucket, (old, new) in enumerate(zip(before, rows, strict=True)):
            for node in set(new) - set(old):
                self._check_entry(key, bucket, node)

    def _check_entry(self, group: tuple[str, str], bucket: int, node: str) -> None:
        """Files that were committed or lost a moment ago may be missing: the map was decided before.

        Of two operators, one may drop a surplus replica that the other is just making part of the map. The one that it
        succeeds is then still there (`before_delete`), and the bucket is repaired.
        """
        disk = self._world.disks.get(node)
        recent = set(self._recent_losses()) | self._world.files_committed_since(self._since())
        if self._world.has_two_operators:
            recent |= {file for moment, file in self._dropped if moment >= self._since()}
        if disk is None:
            assert self._world.deleted_since(node, self._since()), f"node {node} entered the map and does not exist"
            return
        wanted = {f for f in self._world.committed_files(group) if f.bucket == bucket}
        missing = wanted - disk.intact() - recent
        assert not missing, f"node {node} entered the map of bucket {bucket} without {missing}"

    def _since(self) -> int:
        return self._world.requests - RACE_REQUESTS

    def _recent_losses(self) -> list[File]:
        since = self._since()
        return [file for moment, file in self._world.losses if moment >= since]
