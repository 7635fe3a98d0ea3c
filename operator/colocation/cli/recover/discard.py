"""``discard``: lets files go whose tables were deleted so that no group remembers it.

The operator withholds many such folders, because lost objects look the same. Here an admin
names them, by an annotation of each Node where they lie. A folder's name holds its table's uid, so what is said of it
holds of no other table, ever.
"""

from collections.abc import Sequence

import click

from ...model.adoption import OrphanFolder
from ...model.names import ANNOTATION_DISCARDED_FOLDERS
from ..cluster import Cluster
from ..operator_port import fetch_orphans
from ..terminal.options import Target, cluster_options, operator_namespace_option, output_option
from ..terminal.output import Format, columns, size, write


@click.command()
@click.option("--table", default=None, help="Discard only the folders of this table.")
@click.option("--yes", is_flag=True, help="Discard the folders; without it the command only lists them.")
@cluster_options
@operator_namespace_option
@output_option
def discard(table: str | None, yes: bool, target: Target, operator_namespace: str, output: Format) -> None:
    """Let the files of deleted tables go.

    Use this when a namespace was deleted on purpose together with its groups and tables: nothing is left that says so,
    and the operator keeps the files (TooManyDeletions). The command lists the namespace's folders that belong to no
    table. With --yes the operator moves them to the recycle bins a minute later, and the agents purge them a day after
    that. Until then `colocation adopt --recycled` brings them back.
    """
    cluster = target.open()
    orphans = fetch_orphans(cluster.connection, operator_namespace).folders
    wanted = [one for one in orphans if one.namespace == cluster.namespace and table in (None, one.table)]
    wanted = [one for one in wanted if _nodes(one)]
    if yes:
        _annotate(cluster, orphans, wanted)
    write([_json(one, yes) for one in wanted], _text(cluster.namespace, wanted, yes), output)


def _nodes(folder: OrphanFolder) -> list[str]:
    """Where it lies in its place."""
    return sorted(set(folder.nodes) - set(folder.recycled_nodes))


def _path(folder: OrphanFolder) -> str:
    return f"{folder.namespace}/{folder.directory}"


def _annotate(cluster: Cluster, orphans: Sequence[OrphanFolder], wanted: Sequence[OrphanFolder]) -> None:
    """Name the folders on their nodes, beside those that were named before and lie there still."""
    named = {node["metadata"]["name"]: _named(node["metadata"]) for node in cluster.nodes()}
    for node in sorted({node for one in wanted for node in _nodes(one)}):
        lying = {_path(one) for one in orphans if node in _nodes(one)}
        paths = {_path(one) for one in wanted if node in _nodes(one)} | (lying & named.get(node, set()))
        cluster.annotate_node(node, ANNOTATION_DISCARDED_FOLDERS, " ".join(sorted(paths)))


def _named(metadata: dict[str, dict[str, str]]) -> set[str]:
    return set((metadata.get("annotations") or {}).get(ANNOTATION_DISCARDED_FOLDERS, "").split())


def _json(folder: OrphanFolder, discarded: bool) -> dict[str, object]:
    return {
        "namespace": folder.namespace,
        "table": folder.table,
        "directory": folder.directory,
        "nodes": _nodes(folder),
        "discarded": discarded,
    }


def _text(namespace: str, wanted: Sequence[OrphanFolder], discarded: bool) -> str:
    if not wanted:
        return f"no folder of namespace {namespace} is without a table; nothing to discard"
    rows = []
    for one in wanted:
        newest = one.snapshots[0].snapshot if one.snapshots else None
        counts = [newest.committed_at, newest.rows, size(newest.bytes)] if newest else [None, None, None]
        rows.append([one.table, one.directory, *counts, len(_nodes(one))])
    table = columns(["TABLE", "FOLDER", "LAST COMMIT", "ROWS", "BYTES", "NODES"], rows)
    last = "nothing is discarded yet: to let these files go, add --yes; to keep them: colocation adopt"
    if discarded:
        last = "the operator moves the folders to the recycle bins in a minute; a day later they are purged"
    return f"{table}\n\n{last}"
