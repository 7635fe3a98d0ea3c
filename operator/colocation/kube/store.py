"""An in-memory copy of the objects of one kind, fed by watch events, by full lists and by the answers to our writes.

The three sources race; resource versions decide which word is the newest. Kubernetes orders them as integers per kind
(KEP-5504). Watches may lose events, hence the full lists.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

JsonObject = dict[str, Any]
Key = tuple[str, str]
Parsed = TypeVar("Parsed")


class Store(Generic[Parsed]):
    """Objects by (namespace, name), each parsed once, when it arrives.

    Args:
        parse: the object's parser; None from it means that the object is of no interest (yet).
    """

    def __init__(self, parse: Callable[[JsonObject], Parsed | None]) -> None:
        self._parse = parse
        self._versions: dict[Key, int] = {}
        self._objects: dict[Key, Parsed] = {}
        self._removed: dict[Key, int] = {}

    def __iter__(self) -> Iterator[Parsed]:
        """In the order of their keys, so that passes are deterministic."""
        return iter([self._objects[key] for key in sorted(self._objects)])

    def get(self, key: Key) -> Parsed | None:
        """The object of this (namespace, name)."""
        return self._objects.get(key)

    def put(self, body: JsonObject) -> bool:
        """Take an object as it is now; whether that changed anything that we look at."""
        key, version = _key(body), _version(body)
        if version <= max(self._versions.get(key, -1), self._removed.get(key, -1)):
            return False
        parsed = self._parse(body)
        before = self._objects.get(key)
        self._versions[key] = version
        if parsed is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = parsed
        return parsed != before

    def remove(self, body: JsonObject) -> bool:
        """Take a deletion; whether the object was here. A later list that is older than it cannot bring it back."""
        key, version = _key(body), _version(body)
        if version < self._versions.get(key, -1):
            return False
        self._removed[key] = version
        self._versions.pop(key, None)
        return self._objects.pop(key, None) is not None

    def replace(self, bodies: Iterable[JsonObject], list_version: int) -> bool:
        """Take a full list made at ``list_version``; whether it changed anything. Newer words stay."""
        bodies = list(bodies)
        listed = {_key(body) for body in bodies}
        gone = [key for key, version in self._versions.items() if key not in listed and version <= list_version]
        changed = bool(gone)
        for key in gone:
            self._versions.pop(key)
            self._objects.pop(key, None)
        self._removed = {key: version for key, version in self._removed.items() if version > list_version}
        for body in bodies:
            changed = self.put(body) or changed
        return changed


def _key(body: JsonObject) -> Key:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _version(body: JsonObject) -> int:
    return int(body["metadata"]["resourceVersion"])
