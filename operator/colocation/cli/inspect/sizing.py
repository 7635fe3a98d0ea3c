"""``advise``: suggests buckets and replicas from a table's size and the executors' cores.

Doris and StarRocks advise buckets of 1 to 10 GB. There a bucket of a partition is one tablet. Here it is one Parquet
file for each load, which one task reads, so files count and not only bytes: docs/how-to/sizing.md.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from kubernetes.client.exceptions import ApiException
from kubernetes.utils.quantity import parse_quantity

from ...model.base import Frozen
from ...model.names import group_key
from ...model.salvage import salvage
from ...model.table import ColocatedTableStatus
from ...model.wording import counted
from ..cluster import Cluster
from ..errors import CommandFailed, WrongUsage, api_message, is_forbidden
from ..jobs.table_commands import placed_by
from ..terminal.options import Target, WholeNumber, cluster_options, complete_table, output_option
from ..terminal.output import Format, size, write

MIB, GIB = 2**20, 2**30
SMALLEST_FILE_BYTES, LARGEST_FILE_BYTES = 32 * MIB, GIB
TASKS_PER_CORE = 2
MAX_BUCKETS, MAX_REPLICAS = 65536, 7
FILLED_SHARE = 0.6
"""Of a disk: the rest is for repairs, overwrites and dropped tables that wait."""
BROADCAST_BYTES = 256 * MIB


class Workload(Frozen):
    """The largest table of the group (``bytes`` as Parquet), the executor cores of one query, and the nodes.

    ``losses``: nodes whose loss at the same time costs nothing.
    """

    bytes: int
    cores: int
    nodes: int
    partitions: int = 1
    losses: int = 1


class Advice(Frozen):
    """Values for the group's spec, their consequences and reasons. ``remarks``: what does not fit well."""

    buckets: int
    replicas: int
    file_bytes: int
    disk_bytes_per_node: int
    reasons: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def suggest(workload: Workload) -> Advice:
    """Buckets are a power of two, so that groups with half as many can join by bucket one day."""
    per_partition = workload.bytes // workload.partitions
    for_cores = _power_of_two(TASKS_PER_CORE * workload.cores)
    for_files = _power_of_two(-(-per_partition // LARGEST_FILE_BYTES))
    buckets = min(MAX_BUCKETS, max(for_cores, for_files))
    while buckets // 2 >= workload.cores and per_partition // buckets < SMALLEST_FILE_BYTES:
        buckets //= 2
    replicas = min(workload.losses + 1, workload.nodes, MAX_REPLICAS)
    reasons = (
        f"for {TASKS_PER_CORE} tasks or more on each of {counted(workload.cores, 'core')}: "
        f"{counted(for_cores, 'bucket')}",
        f"for files of 1 GiB or less ({size(per_partition)} in each partition): {counted(for_files, 'bucket')}",
        "where files would be under 32 MiB, fewer buckets are enough, down to the number of cores",
        f"with replicas: {replicas}, {replicas - 1} of {counted(workload.nodes, 'node')} may fail",
    )
    return Advice(
        buckets=buckets, replicas=replicas, file_bytes=per_partition // buckets, reasons=reasons,
        disk_bytes_per_node=int(workload.bytes * replicas / workload.nodes / FILLED_SHARE),
        remarks=tuple(_remarks(workload, buckets, per_partition // buckets)),
    )  # fmt: skip


def _remarks(workload: Workload, buckets: int, file_bytes: int) -> list[str]:
    remarks = []
    if workload.bytes < BROADCAST_BYTES:
        remarks.append("a table of this size needs no group: Spark broadcasts it")
    elif file_bytes < SMALLEST_FILE_BYTES:
        remarks.append("files are under 32 MiB: use larger partitions, or load less often and more at a time")
    if file_bytes > LARGEST_FILE_BYTES:
        remarks.append("files are over 1 GiB: partition the table")
    if (idle := workload.nodes - buckets) > 0:
        remarks.append(f"{counted(idle, 'node holds', 'nodes hold')} no bucket")
    if workload.losses >= workload.nodes:
        remarks.append(
            f"--survive {workload.losses} needs {counted(workload.losses + 1, 'node')}: "
            "a bucket's replicas are on different nodes"
        )
    return remarks


def _power_of_two(least: int) -> int:
    """The smallest power of two that is ``least`` or more."""
    return 1 << max(0, least - 1).bit_length()


Json = dict[str, Any]


@dataclass(frozen=True)
class TableSize:
    """Bytes of one replica as Parquet, and the partitions that they are in; 1 = not partitioned."""

    bytes: int
    partitions: int


def size_of_table(item: Json) -> TableSize:
    """The size of the table's newest snapshot.

    Raises:
        CommandFailed: nothing was loaded yet.
    """
    status, _ = salvage(ColocatedTableStatus, item.get("status"))
    if status.snapshot is None or not status.snapshot.bytes:
        raise CommandFailed(f"table {item['metadata']['name']} holds no rows yet: give --from or --size instead")
    return TableSize(status.snapshot.bytes, max(1, status.snapshot.partitions))


def size_of_files(path: str) -> TableSize:
    """The files below a folder as Spark sees them: names that begin with ``_`` or ``.`` are none.

    Raises:
        WrongUsage: there is no such file or folder on this machine, or nothing is in it.
    """
    if "://" in path:
        raise WrongUsage(f"{path} is not on this machine: look up its size there, and give it by --size")
    if not Path(path).exists():
        raise WrongUsage(f"there is no file or folder {path}")
    found = [Path(path)] if Path(path).is_file() else list(_data_files(path))
    total = sum(file.stat().st_size for file in found)
    if not total:
        raise WrongUsage(f"no data files are in {path}")
    return TableSize(total, len({file.parent for file in found}))


def _data_files(folder: str) -> Sequence[Path]:
    files: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        files += [Path(parent, name) for name in names if not name.startswith(("_", "."))]
    return files


def cores_of(nodes: Sequence[Json]) -> int:
    """All cores that pods may have on these Nodes; 1 at least."""
    cores = sum(parse_quantity(node.get("status", {}).get("allocatable", {}).get("cpu", 0)) for node in nodes)
    return max(1, int(cores))


_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
COUNT = WholeNumber(min=1)


class Bytes(click.ParamType):
    """A size such as 500Gi, 1.5T or plain bytes; units are powers of 1024."""

    name = "size"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> int:
        text = str(value).strip().lower().removesuffix("b").removesuffix("i")
        number, unit = (text[:-1], text[-1]) if text and text[-1].isalpha() else (text, "")
        try:
            count = int(float(number) * _UNITS[unit])
        except (KeyError, ValueError, OverflowError):
            count = 0
        if count <= 0:
            self.fail(f"{value!r} given; allowed: a size such as 500Gi, 1.5T, or bytes", parameter, context)
        return count


@click.command()
@click.argument("table", required=False, shell_complete=complete_table)
@click.option("--from", "path", default=None, metavar="PATH", help="Parquet files on this machine, instead of TABLE.")
@click.option("--size", "bytes_", type=Bytes(), default=None,
              help="Size of the table as Parquet, instead of TABLE: 500Gi, 1.5T (powers of 1024).")  # fmt: skip
@click.option("--cores", type=COUNT, default=None,
              help="Executor cores that one query uses; default: the cores of the nodes.")  # fmt: skip
@click.option("--nodes", type=COUNT, default=None,
              help="Nodes that hold data; default: those of TABLE's group, else of the cluster.")  # fmt: skip
@click.option("--partitions", type=COUNT, default=None, help="Partitions of the table; default: those that it has.")
@click.option("--survive", "losses", type=WholeNumber(min=0), default=1, show_default=True,
              help="Nodes that may fail at the same time without loss of data.")  # fmt: skip
@cluster_options
@output_option
def advise(
    table: str | None, path: str | None, bytes_: int | None, cores: int | None, nodes: int | None,
    partitions: int | None, losses: int, target: Target, output: Format,
) -> None:  # fmt: skip
    """Suggest buckets and replicas for a group.

    Give the group's largest table: TABLE of the cluster, its files (--from), or its size (--size). With --from or
    --size, --cores and --nodes, the command contacts no cluster.
    """
    if sum(one is not None for one in (table, path, bytes_)) != 1:
        raise click.UsageError("name one of TABLE, --from and --size")
    cluster = target.open() if table or cores is None or nodes is None else None
    size_there = _size(cluster, table, path, bytes_)
    if cluster and (cores is None or nodes is None):
        found = _nodes(cluster, table)
        cores, nodes = cores or cores_of(found), nodes or max(1, len(found))
    workload = Workload(
        bytes=size_there.bytes, partitions=partitions or size_there.partitions, cores=cores or 1, nodes=nodes or 1,
        losses=losses,
    )  # fmt: skip
    advice = suggest(workload)
    write({**workload.to_json_dict(), **advice.to_json_dict()}, render(workload, advice), output)


def _size(cluster: Cluster | None, table: str | None, path: str | None, bytes_: int | None) -> TableSize:
    if cluster and table:
        return size_of_table(cluster.table(table))
    return size_of_files(path) if path else TableSize(bytes_ or 0, 1)


def _nodes(cluster: Cluster, table: str | None) -> list[dict[str, Any]]:
    """The Nodes of a table's group; without one, all that take pods."""
    group = cluster.group_of(group_key(cluster.namespace, placed_by(cluster.table(table)))) if table else None
    names = ((group or {}).get("status") or {}).get("nodes") or ()
    try:
        found = cluster.nodes()
    except ApiException as error:
        if not is_forbidden(error):
            raise
        raise CommandFailed(f"{api_message(error)}; or give both --cores and --nodes") from error
    return [
        node for node in found
        if (node["metadata"]["name"] in names if names else not node.get("spec", {}).get("unschedulable"))
    ]  # fmt: skip


def render(workload: Workload, advice: Advice) -> str:
    """The values for the spec, then the reasons."""
    parts = f" in {counted(workload.partitions, 'partition')}" if workload.partitions > 1 else ""
    lines = [
        f"for {size(workload.bytes)}{parts}, {counted(workload.cores, 'core')}, {counted(workload.nodes, 'node')}", "",
        f"buckets: {advice.buckets}", f"replicas: {advice.replicas}", "",
        f"files of about {size(advice.file_bytes)}",
        f"disk per node {size(advice.disk_bytes_per_node)}, so that it is filled to 60 %", "",
        *(f"- {reason}" for reason in advice.reasons),
        *(f"! {remark}" for remark in advice.remarks),
    ]  # fmt: skip
    return "\n".join(lines)
