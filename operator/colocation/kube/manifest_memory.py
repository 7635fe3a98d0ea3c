"""What all agents together have said of each manifest: how large its buckets are, and every report of one only once.

A large cluster has millions of bucket reports, most of them equal: replicas are, and so is what a node lacks.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import Any

from ..model.agent import BucketReport, TableReport
from ..state.observation import BucketBytes

BytesKey = tuple[str, str, str]
"""(namespace, directory, manifest)."""

_Content = tuple[Any, ...]
_BUCKET_NAMES = tuple(BucketReport.model_fields)
_content_of: Callable[[BucketReport], _Content] = attrgetter(*_BUCKET_NAMES)
_BUCKET_FIELDS = set(_BUCKET_NAMES)
_TABLE_FIELDS = set(TableReport.model_fields)
"""One object for all: pydantic keeps a set of names with each, which is larger than the rest of it."""


class ManifestMemory:
    """Of the manifests that are wanted; whoever knows which those are has the others forgotten."""

    def __init__(self) -> None:
        self._bytes: dict[BytesKey, BucketBytes] = {}
        self._known: dict[BytesKey, dict[_Content, BucketReport]] = {}
        self._shown: Mapping[BytesKey, BucketBytes] | None = None

    @property
    def bucket_bytes(self) -> Mapping[BytesKey, BucketBytes]:
        """Bytes of each bucket, as any agent that has the manifest said; not changed any more once it is handed out."""
        if self._shown is None:
            self._shown = dict(self._bytes)
        return self._shown

    def take(self, table: TableReport) -> TableReport:
        """Learn from a report; an equal one that shares what was said before."""
        if table.manifest is None:
            return table
        key = (table.namespace, table.directory, table.manifest)
        known = self._known.setdefault(key, {})
        shared = {number: self._share(known, bucket) for number, bucket in table.buckets.items()}
        if table.manifest_present:
            self._learn_bytes(key, {number: bucket.bytes_wanted for number, bucket in shared.items()})
        values = {name: getattr(table, name) for name in TableReport.model_fields}
        return TableReport.model_construct(_TABLE_FIELDS, **{**values, "buckets": shared})

    def forget(self, keys: Iterable[BytesKey]) -> None:
        """Of manifests that are not wanted any more."""
        for key in keys:
            self._known.pop(key, None)
            if self._bytes.pop(key, None) is not None:
                self._shown = None

    def keep(self, keys: Collection[BytesKey]) -> None:
        """Forget those of all other manifests."""
        self.forget(self._known.keys() - set(keys))

    def _learn_bytes(self, key: BytesKey, said: BucketBytes) -> None:
        known = self._bytes.get(key)
        larger = {**said, **{number: max(size, said.get(number, 0)) for number, size in (known or {}).items()}}
        if larger != known:  # a manifest without files is known, too: nothing of it is wanted
            self._bytes[key] = larger
            self._shown = None

    def _share(self, known: dict[_Content, BucketReport], bucket: BucketReport) -> BucketReport:
        content = _content_of(bucket)
        found = known.get(content)
        if found is None:
            values = dict(zip(_BUCKET_NAMES, content, strict=True))
            found = known[content] = BucketReport.model_construct(_BUCKET_FIELDS, **values)
        return found
