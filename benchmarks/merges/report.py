"""The rows of merge.json: medians of the rounds, seconds over ours, and the goals that were missed. Pure."""

import statistics
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

OURS = "colocated"
COPY_ON_WRITE = ("iceberg_copy_on_write", "delta_copy_on_write", "overwrite_partitions")
"""Peers that rewrite files where a row changes, as we do; the others write which rows are gone, and readers pay."""
FASTEST_OF_ALL = ("insert_select_of_join",)
"""Workloads in which no peer at all may be faster."""


def row_of(workload: str, variant: str, runs: Sequence[Row], rows_changed: int) -> Row:
    """The median of each figure of a variant's runs."""
    medians = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    medians = {key: round(value, 3) if isinstance(value, float) else value for key, value in medians.items()}
    seconds = medians.pop("seconds")
    return {
        "workload": workload, "variant": variant, "seconds_median": seconds, **medians, "rows_changed": rows_changed,
    }  # fmt: skip


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """Each row with its seconds over ours of the same workload; unchanged if ours was not measured."""
    ours = {row["workload"]: row["seconds_median"] for row in rows if row["variant"] == OURS}
    return [
        {**row, "ratio": round(row["seconds_median"] / ours[row["workload"]], 2)} if row["workload"] in ours else row
        for row in rows
    ]


def misses(rows: Sequence[Row]) -> list[str]:
    """What is not as it should be, one line each: a shuffle or a sort of ours, and faster peers."""
    lines = []
    for row in rows:
        if row["variant"] == OURS:
            lines += [
                f"{row['workload']}: {row[operator]} {operator}, goal 0"
                for operator in ("exchanges", "sorts")
                if row[operator]
            ]
        elif row.get("ratio", 1) < 1 and (row["variant"] in COPY_ON_WRITE or row["workload"] in FASTEST_OF_ALL):
            lines.append(f"{row['workload']}: {row['variant']} took {row['ratio']} of our seconds")
    return lines
