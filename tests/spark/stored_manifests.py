"""Manifests of loaded tables on the agents' disks: read, changed, and committed as another snapshot."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from colocation.model.table_manifest import TableManifest, decode_manifest, manifest_path
from tests.spark.loopback import LoopbackAgents
from tests.support.manifests import encode_manifest
from tests.unit.spark.fake_catalog import NAMESPACE, FakeCatalog


def table_folders(catalog: FakeCatalog, agents: LoopbackAgents, name: str) -> list[Path]:
    """The table's folder on each node."""
    return [root / NAMESPACE / catalog.tables[name].directory for root in agents.roots.values()]


def newest_manifest(catalog: FakeCatalog, folders: Sequence[Path], name: str) -> TableManifest:
    """Of the table's snapshot."""
    snapshot = catalog.tables[name].status.snapshot
    assert snapshot is not None
    stored = (folders[0] / manifest_path(snapshot.manifest_sha256)).read_bytes()
    return decode_manifest(stored, snapshot.manifest_sha256)


def commit_manifest(catalog: FakeCatalog, folders: Sequence[Path], name: str, manifest: TableManifest) -> bytes:
    """Make the manifest that of the table's snapshot; returns it as it is stored."""
    table = catalog.tables[name]
    snapshot = table.status.snapshot
    assert snapshot is not None
    sha256, stored = encode_manifest(manifest)
    for folder in folders:
        (folder / manifest_path(sha256)).write_bytes(stored)
    committed = snapshot.model_copy(update={"manifest": f"sha256:{sha256}", "files": len(manifest.files)})
    catalog.tables[name] = replace(table, status=table.status.model_copy(update={"snapshot": committed}))
    return stored
