"""``advise``: how many buckets and replicas a group should have, and by which rule."""

from typing import Any

import click

from ...model.names import group_key
from ..cluster import Cluster
from ..jobs.table_jobs import placed_by
from ..terminal.completed_names import complete_table
from ..terminal.options import Target, cluster_options, output_option
from ..terminal.output import Format, counted, size, write
from .sizing import Advice, Workload
from .sizing import advise as advise_on
from .table_sizes import TableSize, cores_of, size_of_files, size_of_table

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
COUNT = click.IntRange(min=1)


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
              help="Size of the table as Parquet, instead of TABLE: 500Gi, 1.5T.")  # fmt: skip
@click.option("--cores", type=COUNT, default=None,
              help="Executor cores that one query uses; default: the cores of the nodes.")  # fmt: skip
@click.option("--nodes", type=COUNT, default=None,
              help="Nodes that hold data; default: those of TABLE's group, else of the cluster.")  # fmt: skip
@click.option("--partitions", type=COUNT, default=None, help="Partitions of the table; default: those that it has.")
@click.option("--survive", "losses", type=click.IntRange(min=0), default=1, show_default=True,
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
    advice = advise_on(workload)
    write({**workload.to_json_dict(), **advice.to_json_dict()}, render(workload, advice), output)


def _size(cluster: Cluster | None, table: str | None, path: str | None, bytes_: int | None) -> TableSize:
    if cluster and table:
        return size_of_table(cluster.table(table))
    return size_of_files(path) if path else TableSize(bytes_ or 0, 1)


def _nodes(cluster: Cluster, table: str | None) -> list[dict[str, Any]]:
    """The Nodes of a table's group; without one, all that take pods."""
    group = cluster.group_of(group_key(cluster.namespace, placed_by(cluster.table(table)))) if table else None
    names = ((group or {}).get("status") or {}).get("nodes") or ()
    return [
        node for node in cluster.nodes()
        if (node["metadata"]["name"] in names if names else not node.get("spec", {}).get("unschedulable"))
    ]  # fmt: skip


def render(workload: Workload, advice: Advice) -> str:
    """What to write into the spec, then why."""
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
