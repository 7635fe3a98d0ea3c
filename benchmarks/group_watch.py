"""What the groups' statuses say, as a watch tells it, with the time at which each word arrived."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.apiserver import ApiServer
from benchmarks.control_plane_objects import Json

GROUPS_PATH = "/apis/colocation.dev/v1alpha1/colocationgroups"
CHECK_SECONDS = 2.0
GroupKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class GroupWord:
    """One state of a group. ``snapshots``: uid of each table that its status remembers -> the snapshot's id."""

    generation: int
    observed_generation: int | None
    stable: bool | None
    tables: int
    rows: tuple[tuple[str, ...], ...]
    snapshots: Mapping[str, int]
    heard_at: float

    @property
    def is_answered(self) -> bool:
        """Whether the status is about this generation of the group, and stable."""
        return bool(self.stable) and self.observed_generation == self.generation


def _word(body: Json) -> GroupWord:
    status = body.get("status", {})
    members = status.get("members", ())
    return GroupWord(
        generation=body["metadata"]["generation"],
        observed_generation=status.get("observedGeneration"),
        stable=status.get("stable"),
        tables=status.get("tableCount") or 0,
        rows=tuple(tuple(row) for row in status.get("backendsPerBucketSeq") or ()),
        snapshots={one["uid"]: one["snapshot"]["id"] for one in members if one.get("snapshot")},
        heard_at=time.monotonic(),
    )


class GroupWatch:
    """Follows all groups in a thread of its own until the API server ends.

    ``listeners`` get every status, in the order in which the API server sent them.

    Args:
        server: the API server.
        check: called while something is waited for; raises when it cannot come any more.
    """

    def __init__(self, server: ApiServer, check: Callable[[], None]) -> None:
        self._server = server
        self._check = check
        self._changed = threading.Condition()
        self._words: dict[GroupKey, GroupWord] = {}
        self.listeners: list[Callable[[GroupKey, GroupWord], None]] = []
        threading.Thread(target=self._follow, daemon=True, name="groups").start()

    def wait_until(self, is_reached: Callable[[Mapping[GroupKey, GroupWord]], bool], seconds: float, what: str) -> None:
        """Wait for a state of all groups.

        Raises:
            RuntimeError: it is not reached within this time.
        """
        ends_at = time.monotonic() + seconds
        with self._changed:
            while not self._changed.wait_for(lambda: is_reached(self._words), CHECK_SECONDS):
                self._check()
                if time.monotonic() > ends_at:
                    stable = sum(bool(word.stable) for word in self._words.values())
                    found = f"{stable} of {len(self._words)} groups are stable"
                    raise RuntimeError(f"after {seconds:.0f} s it is not true that {what}; {found}")

    @property
    def words(self) -> dict[GroupKey, GroupWord]:
        """The last word on every group."""
        with self._changed:
            return dict(self._words)

    def _follow(self) -> None:
        version = "0"
        while self._server.is_running:
            for event in self._server.watch(GROUPS_PATH, version):
                if event.get("type") not in ("ADDED", "MODIFIED"):
                    version = "0"  # this version is too old; begin with all groups as they are
                    break
                version = event["object"]["metadata"]["resourceVersion"]
                self._take(event["object"])

    def _take(self, body: Json) -> None:
        key, word = (body["metadata"]["namespace"], body["metadata"]["name"]), _word(body)
        with self._changed:
            self._words[key] = word
            for listener in self.listeners:
                listener(key, word)
            self._changed.notify_all()
