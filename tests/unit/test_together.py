"""Which tests one worker runs when several run at once."""

import pytest

from tests.conftest import HERE, SPARK_LANES, stays_with

SPARK_FILES = sorted(file.name for file in (HERE / "spark").glob("test_*.py"))
ADOPT, VIEWS, STORIES = "tests/unit/cli/test_adopt.py", "tests/unit/cli/test_views.py", "tests/simulation/test_disks.py"


@pytest.mark.parametrize(("first", "second", "together"), [
    pytest.param(f"{ADOPT}::test_a", f"{ADOPT}::test_b[x::y]", True, id="a file"),
    pytest.param(f"{ADOPT}::test_a", f"{VIEWS}::test_a", False, id="two files"),
    pytest.param("tests/spark/test_catalog_clients.py::test_a", "tests/spark/test_concurrent_sessions.py::test_a", True,
                 id="servers"),
    pytest.param(f"{STORIES}::test_a[1]", f"{STORIES}::test_a[2]", False, id="two stories"),
])  # fmt: skip
def test_what_stays_together(first: str, second: str, together: bool) -> None:
    """What a file made is shared by its tests; stories share nothing."""
    assert (stays_with(first) == stays_with(second)) is together


def test_sparks_files_are_as_many_lanes_as_there_are_clusters() -> None:
    """Each lane has its share of the files, and a file one lane."""
    lanes = [{stays_with(f"tests/spark/{file}::{test}") for test in ("test_a", "test_b[a/b]")} for file in SPARK_FILES]
    assert all(len(lane) == 1 for lane in lanes)
    words = [word for lane in lanes for word in lane]
    assert len(set(words)) == SPARK_LANES
    assert max(map(words.count, words)) - min(map(words.count, words)) <= 2
