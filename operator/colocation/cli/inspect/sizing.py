"""The rule behind `colocation advise`: buckets and replicas from sizes and cores. Pure.

Doris and StarRocks advise buckets of 1 to 10 GB. There a bucket of a partition is one tablet. Here it is one Parquet
file for each load, which one task reads, so files count and not only bytes: docs/how-to/sizing.md.
"""

from ...model.base import Frozen
from ..terminal.output import counted, size

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
    """What to write into the group's spec, what follows from it, and why. ``remarks``: what does not fit well."""

    buckets: int
    replicas: int
    file_bytes: int
    disk_bytes_per_node: int
    reasons: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def advise(workload: Workload) -> Advice:
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
