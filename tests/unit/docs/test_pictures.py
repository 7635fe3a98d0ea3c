"""Pictures of the site are drawn from their sources, which are easier to change: diagrams, and the tables of a page."""

import re
import zlib
from pathlib import Path

import pytest

from benchmarks.page_charts import CHARTS, IMAGES, PAGE, Chart, draw

DIAGRAMS = sorted((IMAGES.parent / "diagrams").glob("*.puml"))
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
"""PlantUML's base 64."""
DRAW = "run scripts/draw-diagrams"


def source_of(picture: str) -> str:
    """What PlantUML drew it from: it stores the source in the picture, deflated."""
    found = re.search(r"<!--SRC=\[([0-9A-Za-z_ -]+)\]-->", picture)
    assert found is not None
    bits = "".join(f"{DIGITS.index(one):06b}" for one in found[1] if one != " ")  # no comment may hold "--"
    packed = bytes(int(bits[place : place + 8], 2) for place in range(0, len(bits) - 7, 8))
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed).decode()


def texts(picture: Path) -> list[str]:
    """What is written in it."""
    return re.findall(r"<text [^>]*>([^<]*)</text>", picture.read_text())


@pytest.mark.parametrize("diagram", DIAGRAMS, ids=lambda path: path.stem)
def test_a_diagram_is_drawn_from_its_source(diagram: Path) -> None:
    """All but the style that they share, which the picture does not repeat."""
    drawn = source_of((IMAGES / f"{diagram.stem}.svg").read_text())
    assert drawn.split() == re.sub(r"@(start|end)uml", "", diagram.read_text()).split(), DRAW


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_chart_shows_its_table(tmp_path: Path, chart: Chart) -> None:
    """Every label and number, in order; where they are may depend on the machine's fonts."""
    path = tmp_path / "chart.svg"
    draw(chart, PAGE.read_text(), path)
    assert texts(path) == texts(IMAGES / f"{chart.name}.svg"), DRAW
    assert len(texts(path)) > len(chart.columns)
