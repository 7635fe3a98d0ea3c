"""An in-memory copy of the objects of one kind, fed by watch events, by full lists and by the answers to our writes.

The three sources race; resource versions decide which word is the newest. Kubernetes orders them as integers per kind
(KEP-5504). Watches may lose events, hence the full lists.
"""

import logging
from collections.abc import Callable, Container, Iterator, Set
from typing import Any, Generic, TypeVar

logger = logging.getLogger(__name__)

JsonObject = dict[str, Any]
Key = tuple[str, str]
Parsed = TypeVar("Parsed")


class Store(Generic[Parsed]):
    """Objects by (namespace, name), each parsed once, when it arrives.

    What is no object at all is logged and left out; one that cannot be parsed any more stays as it was last understood,
    as what is missing here may be deleted elsewhere.

    Args:
        parse: the object's parser; None from it means that the object is of no interest (yet).
    """

    def __init__(self, parse: Callable[[JsonObject], Parsed | None]) -> None:
        self._parse = parse
        self._versions: dict[Key, int] = {}
        self._objects: dict[Key, Parsed] = {}
        self._removed: dict[Key, int] = {}
        self._sorted: tuple[Parsed, ...] | None = None

    def __iter__(self) -> Iterator[Parsed]:
        """In the order of their keys, so that passes are deterministic."""
        return iter(self.objects)

    @property
    def objects(self) -> tuple[Parsed, ...]:
        """All of them, in the order of their keys; the same tuple until something changes."""
        if self._sorted is None:
            self._sorted = tuple(self._objects[key] for key in sorted(self._objects))
        return self._sorted

    def keys(self) -> Set[Key]:
        """(namespace, name) of all objects."""
        return self._objects.keys()

    def get(self, key: Key) -> Parsed | None:
        """The object of this (namespace, name)."""
        return self._objects.get(key)

    def put(self, body: JsonObject) -> bool:
        """Take an object as it is now; whether that changed anything that we look at."""
        identified = _identify(body)
        if identified is None:
            return False
        key, version = identified
        if version <= max(self._versions.get(key, -1), self._removed.get(key, -1)):
            return False
        try:
            parsed = self._parse(body)
        except Exception:  # one object's fault must not harm the others
            logger.exception("object %s cannot be parsed; it stays as it was last understood", "/".join(key))
            return False
        before = self._objects.get(key)
        self._versions[key] = version
        if parsed == before:
            return False
        if parsed is None:
            del self._objects[key]
        else:
            self._objects[key] = parsed
        self._sorted = None
        return True

    def remove(self, body: JsonObject) -> bool:
        """Take a deletion; whether the object was here. A later list that is older than it cannot bring it back."""
        identified = _identify(body)
        if identified is None:
            return False
        key, version = identified
        if version < self._versions.get(key, -1):
            return False
        self._removed[key] = max(version, self._removed.get(key, -1))
        return self._forget(key)

    def listing(self) -> "StoreListing":
        """Takes a full list, object by object; a store takes one at a time."""
        return StoreListing(self)

    def keep(self, listed: Container[Key], list_version: int) -> bool:
        """Forget what a full list of this version lacks; whether that was anything. Newer words stay; a watch that lags
        behind the list cannot bring back what has gone.
        """
        gone = [key for key, version in self._versions.items() if key not in listed and version <= list_version]
        for key in gone:
            self._forget(key)
        newer = {key: version for key, version in self._removed.items() if version > list_version}
        self._removed = dict.fromkeys(gone, list_version) | newer
        return bool(gone)

    def _forget(self, key: Key) -> bool:
        self._versions.pop(key, None)
        if self._objects.pop(key, None) is None:
            return False
        self._sorted = None
        return True


class StoreListing:
    """A full list on its way into a store. ``has_changed``: whether anything that we look at was another before."""

    def __init__(self, store: Store[Any]) -> None:
        self.has_changed = False
        self._store = store
        self._listed: set[Key] = set()

    def begin(self) -> None:
        """See ``api.Listing``."""
        self._listed = set()

    def take(self, body: JsonObject) -> None:
        """See ``api.Listing``."""
        identified = _identify(body)
        if identified is not None:
            self._listed.add(identified[0])
            self.has_changed = self._store.put(body) or self.has_changed

    @property
    def unlisted(self) -> Set[Key]:
        """What is known and not in the list, so far: it is gone, newer, or not what the list is asked for."""
        return self._store.keys() - self._listed

    def end(self, list_version: int) -> None:
        """The list is whole, and was made at ``list_version``."""
        self.has_changed = self._store.keep(self._listed, list_version) or self.has_changed


def _identify(body: JsonObject) -> tuple[Key, int] | None:
    """((namespace, name), resource version); None, with a line in the log, for what has none."""
    try:
        metadata = body["metadata"]
        key = str(metadata.get("namespace") or ""), str(metadata["name"])
        return key, int(metadata["resourceVersion"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        logger.warning("an object without a name or a resource version is left out (%r): %.300r", error, body)
        return None
