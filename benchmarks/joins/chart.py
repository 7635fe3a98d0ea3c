"""The benchmark's rows as a picture: each workload's variants next to each other, in units of the floor."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from .report import Row

COLOURS = {"floor": "#bbbbbb", "colocated": "#1b7837", "spark_bucketed": "#762a83", "iceberg_spj": "#9970ab",
           "broadcast": "#e08214", "shuffle": "#b2182b", "colocated_one_node_down": "#7fbf7b",
           "shuffle_one_node_down": "#ef8a62", "duckdb": "#2166ac"}  # fmt: skip
BAR_WIDTH = 0.11


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write a PNG with one panel per shaping of the links."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    shapings = list(dict.fromkeys(row["links"] for row in rows))
    figure, panels = pyplot.subplots(len(shapings), 1, figsize=(12, 4.5 * len(shapings)), squeeze=False)
    for panel, links in zip(panels[:, 0], shapings, strict=True):
        shown = [row for row in rows if row["links"] == links]
        workloads = list(dict.fromkeys(row["workload"] for row in shown))
        for offset, (variant, colour) in enumerate(COLOURS.items()):
            bars = {workloads.index(row["workload"]): row["ratio_to_floor"]
                    for row in shown if row["variant"] == variant}  # fmt: skip
            places = [position + (offset - len(COLOURS) / 2 + 0.5) * BAR_WIDTH for position in bars]
            panel.bar(places, list(bars.values()), BAR_WIDTH, label=variant, color=colour)
        panel.set_xticks(range(len(workloads)), workloads)
        panel.set_ylabel("seconds / floor's seconds")
        panel.set_title(f"links {links} (lower is better; medians of one run)")
        panel.grid(axis="y", alpha=0.3)
        panel.legend(ncols=4, fontsize="small", loc="upper left")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
