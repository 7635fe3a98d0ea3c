"""What all agents together report of each manifest: how large its buckets are, and every report of one only once.

A large cluster has millions of bucket reports, most of them equal: replicas are, and so is what a node lacks. All that
one agent reports of a manifest is equal to the report of another agent that holds the same buckets.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ..model.agent import BucketReport, TableReport
from ..state.observation import BucketBytes

BytesKey = tuple[str, str, str]
"""(namespace, directory, manifest)."""
MAX_KINDS = 64
"""Different words about one manifest that are remembered, the last ones: a map of as many buckets has as many kinds of
nodes."""


@dataclass(slots=True)
class _Said:
    """Of one manifest, by any agent. ``tables``: the buckets of whole reports."""

    buckets: dict[BucketReport, BucketReport] = field(default_factory=dict)
    tables: list[dict[int, BucketReport]] = field(default_factory=list)

    def shared(self, buckets: dict[int, BucketReport]) -> dict[int, BucketReport]:
        """These buckets, as far as possible in the objects that are here."""
        known = self.buckets
        same = {number: known.setdefault(bucket, bucket) for number, bucket in buckets.items()}
        for table in self.tables:
            if table == same:
                return table
        if len(self.tables) >= MAX_KINDS:
            del self.tables[0]
        self.tables.append(same)
        return same


def _variants(tables: list[dict[int, BucketReport]]) -> _Said:
    return _Said({bucket: bucket for buckets in tables for bucket in buckets.values()}, tables)


class ManifestMemory:
    """Of the manifests that are wanted; `keep` forgets the others."""

    def __init__(self) -> None:
        self._bytes: dict[BytesKey, BucketBytes] = {}
        self._known: dict[BytesKey, _Said] = {}
        self._shown: Mapping[BytesKey, BucketBytes] | None = None

    @property
    def bucket_bytes(self) -> Mapping[BytesKey, BucketBytes]:
        """Bytes of each bucket, as reported by any agent with the manifest; not changed once it is handed out."""
        if self._shown is None:
            self._shown = dict(self._bytes)
        return self._shown

    def take(self, table: TableReport) -> None:
        """Learn from a new report, and let it share equal parts of earlier ones."""
        if table.manifest is None:
            return
        key = (table.namespace, table.directory, table.manifest)
        known = self._known.setdefault(key, _Said())
        object.__setattr__(table, "buckets", known.shared(table.buckets))
        if table.manifest_present:
            self._learn_bytes(key, {number: bucket.bytes_wanted for number, bucket in table.buckets.items()})

    def forget(self, keys: Iterable[BytesKey]) -> None:
        """Of manifests that are not wanted any more."""
        for key in keys:
            self._known.pop(key, None)
            if self._bytes.pop(key, None) is not None:
                self._shown = None

    def keep(self, keys: Collection[BytesKey], reported: Iterable[TableReport]) -> None:
        """Forget all other manifests, and parts that are in no agent's report any longer (``reported``: all of now)."""
        self.forget(self._known.keys() - set(keys))
        shared: dict[BytesKey, dict[int, dict[int, BucketReport]]] = {key: {} for key in self._known}
        for table in reported:
            key = (table.namespace, table.directory, table.manifest or "")
            if key in shared:
                shared[key][id(table.buckets)] = table.buckets
        self._known = {key: _variants(list(tables.values())[-MAX_KINDS:]) for key, tables in shared.items()}

    def _learn_bytes(self, key: BytesKey, shared: BucketBytes) -> None:
        known = self._bytes.get(key)
        larger = {**shared, **{number: max(size, shared.get(number, 0)) for number, size in (known or {}).items()}}
        if larger != known:  # a manifest without files is known, too: nothing of it is wanted
            self._bytes[key] = larger
            self._shown = None
