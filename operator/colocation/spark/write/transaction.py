"""One change of a table, from the first look at it to its commit."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace

from colocation.model.table_manifest import TableManifest

from ..agents import Agents
from ..catalog import Catalog, TableObject
from ..configuration import SessionSettings
from .changes import Change
from .commit import Committed, LoadConflict, commit
from .load_target import LoadTarget, wait_until_loadable
from .publication import follow_map, publish_manifest
from .upload import Destination, SentFile


@dataclass(frozen=True)
class Transaction:
    """A change that has begun.

    Attributes:
        catalog: the cluster.
        settings: of the session.
        target: the table, its map and its agents as they were when the change began.
        wait_seconds: how long to wait, again before the commit, for the table to be accepted and have a map.
    """

    catalog: Catalog
    settings: SessionSettings
    target: LoadTarget
    wait_seconds: float

    @classmethod
    def begin(
        cls, catalog: Catalog, settings: SessionSettings, namespace: str, name: str, wait_seconds: float
    ) -> "Transaction":
        """Look at the table as soon as it can be changed.

        Raises:
            NotInCatalog: there is no such table.
            NotReady: the table is refused, or has no map within ``wait_seconds``.
        """
        target = wait_until_loadable(catalog, namespace, name, wait_seconds)
        return cls(catalog, settings, target, wait_seconds)

    @property
    def table(self) -> TableObject:
        """The table as it was when the change began."""
        return self.target.table

    @property
    def destination(self) -> Destination:
        """Where new files go."""
        return Destination(
            namespace=self.table.namespace,
            directory=self.table.directory,
            buckets=self.target.buckets,
            agents=self.target.agents,
            token_file=self.settings.token_file,
            ca_file=self.settings.ca_file,
            retry_seconds=self.settings.retry_seconds,
        )

    def committed_manifest(self) -> TableManifest | None:
        """What was committed when the change began; None when nothing was. Raises as ``stored_manifest`` does."""
        found = self.stored_manifest()
        return found[0] if found else None

    def stored_manifest(self) -> tuple[TableManifest, bytes] | None:
        """The same with its stored bytes, whose digest is in the table's status.

        Raises:
            NoAgentAnswers: no agent has the manifest.
            InvalidObject: the table's status does not say which it is.
        """
        self.table.check_status()
        with self.destination.open_agents() as agents:
            return _stored_manifest(agents, self.table)

    def commit(self, change: Change, sent: Sequence[SentFile]) -> Committed:
        """Commit on the nodes that the map names by now.

        Raises:
            LoadConflict: overtaken by a change that this one may not go on top of, or the table's layout has changed.
            ReplicasMissing: fewer nodes than a majority of a bucket's replicas hold the manifest and the bucket's new
                files.
            NotReady, NoAgentAnswers: the table, its map or its agents have gone.
        """
        current = wait_until_loadable(self.catalog, self.table.namespace, self.table.name, self.wait_seconds)
        if change.buckets not in (None, len(current.buckets)):
            raise LoadConflict(
                f"group {current.group.name} had {change.buckets} buckets when the load began, now it has "
                f"{len(current.buckets)}; load again"
            )
        moved = replace(self.destination, buckets=current.buckets, agents=current.agents)
        with moved.open_agents() as agents:
            follow_map(agents, self.destination, sent, current.buckets)
            return commit(
                self.catalog,
                self.table,
                change,
                parent_of=lambda table: _committed_manifest(agents, table),
                publish=lambda manifest: publish_manifest(agents, moved, manifest, sent),
                now=lambda: datetime.datetime.now(datetime.UTC),
            )


def _committed_manifest(agents: Agents, table: TableObject) -> TableManifest | None:
    found = _stored_manifest(agents, table)
    return found[0] if found else None


def _stored_manifest(agents: Agents, table: TableObject) -> tuple[TableManifest, bytes] | None:
    snapshot = table.status.snapshot
    if snapshot is None:
        return None
    return agents.fetch_manifest(table.namespace, table.directory, snapshot.manifest_sha256)
