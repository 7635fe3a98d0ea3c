"""One node's agent as the operator hears it: what it holds, what it was asked, and what changed since an answer."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from benchmarks.control_plane_objects import BUCKETS, GIB, PARTITIONS
from colocation.common.waiting import set_within

Json = dict[str, Any]


class Refused(Exception):
    """409: what is asked does not follow from the question before, or is of an older operator. ``body``: the answer."""

    def __init__(self, reason: str, **fields: int) -> None:
        super().__init__(reason)
        self.body = json.dumps({"error": reason, "message": "ask in full", **fields}).encode()


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A table's folder on a node: its buckets, all files held and verified, in the answer's JSON."""

    namespace: str
    directory: str
    buckets: bytes

    def report(self, manifest: str | None, staged_bytes: int) -> bytes:
        """The table's part of an answer."""
        wanted = b'"' + manifest.encode() + b'"' if manifest else b"null"
        return (
            b'{"namespace":"%b","directory":"%b","manifest":%b,"manifestPresent":true,"buckets":{%b},'
            b'"surplusBytes":%d,"retainedPresent":true,"retainedMissing":[]}'
        ) % (self.namespace.encode(), self.directory.encode(), wanted, self.buckets if manifest else b"", staged_bytes)


def buckets_json(held: tuple[int, ...]) -> bytes:
    """All buckets of a manifest, as JSON of an answer; those that are held are complete."""
    one = b'"%d":{"state":%b,"filesWanted":%d,"filesHeld":%d,"bytesWanted":%d,"bytesHeld":%d,"corruptFiles":[]}'
    whole, none = (b'"complete"', PARTITIONS, PARTITIONS, GIB, GIB), (b"null", PARTITIONS, 0, GIB, 0)
    return b",".join(one % (bucket, *(whole if bucket in held else none)) for bucket in range(BUCKETS))


@dataclass
class FakeNode:
    """Answers as an agent that holds all that it should, from memory.

    ``requests`` counts its inventories, ``unchanged`` those that were answered by 304.
    """

    name: str
    instance: str
    held: dict[str, HeldTable] = field(default_factory=dict)
    requests: int = 0
    unchanged: int = 0
    is_silent: bool = False
    _asked: dict[str, str | None] = field(default_factory=dict)
    _staged: dict[str, int] = field(default_factory=dict)
    _changed_at: dict[str, int] = field(default_factory=dict)
    _revision: int = 1
    _session: str = ""
    _number: int = 0
    _term: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self, key: str, table: HeldTable) -> None:
        """A table's files are here now, or are others than before."""
        self.held[key] = table
        self._touch([key])

    def stage(self, key: str, size_bytes: int) -> None:
        """A load has put files that no manifest names yet."""
        self._staged[key] = size_bytes
        self._touch([key])

    async def inventory(self, request: Json, known: str | None) -> bytes | None:
        """The answer's JSON; None (304) when nothing changed since the revision ``known``, even after waiting.

        Raises:
            Refused: its base is not the question before, or its term is old.
        """
        self.requests += 1
        is_new = self._ask(request)
        number = self._number
        waited_seconds = 0.0 if is_new else float(request.get("waitSeconds", 0))
        if waited_seconds and known == self._entity_tag:
            self._changed.clear()
            await set_within(self._changed, waited_seconds)
        if known == self._entity_tag or (number != self._number and known is not None):
            self.unchanged += 1
            return None
        if number != self._number:
            raise Refused("UnknownQuestion")
        return self._answer(known)

    def status(self) -> bytes:
        """The answer without tables."""
        return self._answer(None, has_tables=False)

    @property
    def _entity_tag(self) -> str:
        return f'"{self.instance}-{self._revision}"'

    def _ask(self, request: Json) -> bool:
        """Take the question; whether it is another one than before."""
        if "tables" in request:  # an operator of the release before
            return self._replace({_key(one): one["manifest"] for one in request["tables"]})
        if request.get("term", 0) < self._term:
            raise Refused("StaleTerm", term=self._term)
        number, base, same = request["number"], request.get("base"), request["session"] == self._session
        changed = {_key(one["reference"]): one["reference"].get("manifest") for one in request.get("changed", ())}
        removed = request.get("removed", ())
        is_repeated = same and number == self._number
        if base is not None and not is_repeated and (not same or base != self._number):
            raise Refused("UnknownQuestion")
        self._term, self._session, self._number = request.get("term", 0), request["session"], number
        if base is None:
            return self._replace(changed)
        if is_repeated or not (changed or removed):
            return False
        for key in removed:
            self._asked.pop(key, None)
        self._asked.update(changed)
        for key in changed:
            self._staged.pop(key, None)
        self._touch([*changed, *removed])
        return True

    def _replace(self, asked: dict[str, str | None]) -> bool:
        if asked == self._asked:
            return False
        self._asked = asked
        self._staged.clear()
        self._touch(list(asked))
        return True

    def _touch(self, keys: list[str]) -> None:
        if keys:
            self._revision += 1
            self._changed_at.update(dict.fromkeys(keys, self._revision))
            self._changed.set()

    def _answer(self, known: str | None, has_tables: bool = True) -> bytes:
        instance, _, number = (known or "").strip('"').rpartition("-")
        since = int(number) if instance == self.instance else 0
        keys = [key for key in self._asked if self._changed_at.get(key, 1) > since] if has_tables else []
        tables = b",".join(self._report(key) for key in keys)
        unknown = json.dumps(sorted(self.held.keys() - self._asked.keys())).encode()
        return (
            b'{"node":"%b","revision":"%b","instance":"%b","uptimeSeconds":%f,"term":%d,"capacityBytes":%d,'
            b'"freeBytes":%d,"activeTransfers":0,"isFull":%b,"tables":[%b],"unknownDirectories":%b,'
            b'"recycledDirectories":[],"clones":[]}'
        ) % (
            self.name.encode(), self._entity_tag[1:-1].encode(), self.instance.encode(),
            asyncio.get_running_loop().time(), self._term, 1000 * GIB, 500 * GIB, b"false" if since else b"true",
            tables, unknown,
        )  # fmt: skip

    def _report(self, key: str) -> bytes:
        manifest, held = self._asked[key], self.held.get(key)
        if held is not None:
            return held.report(manifest, self._staged.get(key, 0))
        namespace, _, directory = key.partition("/")
        said = {"namespace": namespace, "directory": directory, "manifest": manifest, "manifestPresent": False}
        return json.dumps(said).encode()


def _key(reference: Json) -> str:
    return f"{reference['namespace']}/{reference['directory']}"
