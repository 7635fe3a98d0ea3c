"""Draws the tables of docs/explanation/performance.md as bars, so that a page and its pictures say the same.

    python -m benchmarks.page_charts
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "performance.md"
IMAGES = PAGE.parents[1] / "images"
COLOURS = ("#1b7837", "#762a83", "#e08214", "#2166ac")
BAR_HEIGHT = 0.2
NUMBER = r"\d+(?:\.\d+)?"


@dataclass(frozen=True)
class Chart:
    """A picture of the first table below a heading: some of its columns, in this order, to the right of a line at 1."""

    name: str
    heading: str
    columns: Sequence[str]
    axis: str
    is_logarithmic: bool = False


CHARTS = (
    Chart(
        "performance-others", "How long do others take?",
        ("shuffle", "broadcast", "Iceberg, storage-partitioned", "Spark's bucketed tables"),
        "times as long as the colocated join (right of the line: colocated is faster)", is_logarithmic=True,
    ),
    Chart(
        "performance-floors", "How far is it from reading the files?",
        ("2026-11-23", "2026-11-24", "2026-11-25", "2026-11-28"),
        "times as long as reading the columns (line: as fast as reading alone)",
    ),
    Chart(
        "performance-changes", "What a change of rows costs",
        ("Iceberg 1.11, copy-on-write", "Delta 4.3, copy-on-write", "Iceberg, merge-on-read",
         "Delta, deletion vectors"),
        "times as long as on a colocated table (right of the line: colocated is faster)",
    ),
)  # fmt: skip


def table_below(page: str, heading: str) -> dict[str, list[str]]:
    """The columns of the first table below a heading, by their names."""
    _, _, rest = page.partition(f"# {heading}\n")
    lines = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)
    if lines is None:
        raise ValueError(f"{heading!r} has no table below it")
    head, _, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines[0].splitlines()]
    return {name: [row[number] for row in rows] for number, name in enumerate(head)}


def draw(chart: Chart, page: str, path: Path) -> None:
    """Write the chart as SVG: the same bytes for the same table."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    table = table_below(page, chart.heading)
    labels = [label.replace("`", "") for label in next(iter(table.values()))]
    with pyplot.rc_context({"svg.hashsalt": "colocation", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure, panel = pyplot.subplots(figsize=(9, 0.32 + 0.95 * len(labels) * BAR_HEIGHT * (len(chart.columns) + 1)))
        for offset, (column, colour) in enumerate(zip(chart.columns, COLOURS, strict=False)):
            values = [_number(text) for text in table[column]]
            places = [row + (offset - (len(chart.columns) - 1) / 2) * BAR_HEIGHT for row in range(len(labels))]
            bars = panel.barh(places, [value or 0 for value in values], BAR_HEIGHT, label=column, color=colour)
            panel.bar_label(bars, [_shown(text) for text in table[column]], padding=2, fontsize=8)
        panel.set_yticks(range(len(labels)), labels)
        panel.invert_yaxis()
        panel.axvline(1, color="#333333", linewidth=1)
        if chart.is_logarithmic:
            panel.set_xscale("log")
            panel.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"], minor=False)
            panel.minorticks_off()
        panel.set_xlabel(chart.axis)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(ncols=2, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
        figure.tight_layout()
        figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)


def _shown(text: str) -> str:
    """A cell's first number as it is written."""
    found = re.search(NUMBER, text)
    return found[0] if found else ""


def _number(text: str) -> float | None:
    """The first number of a cell; None where there is none."""
    shown = _shown(text)
    return float(shown) if shown else None


def main() -> None:
    """Draw all charts into docs/images."""
    page = PAGE.read_text()
    for chart in CHARTS:
        draw(chart, page, IMAGES / f"{chart.name}.svg")


if __name__ == "__main__":
    main()
