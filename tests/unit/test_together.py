"""Which tests one worker runs when several run at once."""

import pytest

from tests.conftest import SPARK_CLUSTERS, next_of, stays_with

ADOPT, VIEWS = "tests/unit/cli/recover/test_adopt.py", "tests/unit/cli/inspect/test_views.py"
STORIES = "tests/simulation/test_disks.py"


@pytest.mark.parametrize(("first", "second", "together"), [
    pytest.param(f"{ADOPT}::test_a", f"{ADOPT}::test_b[x::y]", True, id="a file"),
    pytest.param(f"{ADOPT}::test_a", f"{VIEWS}::test_a", False, id="two files"),
    pytest.param("tests/spark/test_catalog_clients.py::test_a", "tests/spark/test_concurrent_sessions.py::test_a", True,
                 id="servers"),
    pytest.param("tests/spark/test_catalog_clients.py::test_a", "tests/spark/test_pipelines.py::test_a", True,
                 id="servers of pipelines"),
    pytest.param(f"{STORIES}::test_a[1]", f"{STORIES}::test_a[2]", False, id="two stories"),
])  # fmt: skip
def test_what_stays_together(first: str, second: str, together: bool) -> None:
    """What a file made is shared by its tests; stories share nothing."""
    assert (stays_with(first) == stays_with(second)) is together


SPARK, OTHER = "tests/spark/test_joins.py", ADOPT


@pytest.mark.parametrize(("waiting", "has_cluster", "clusters", "chosen"), [
    pytest.param([OTHER, SPARK], False, 0, SPARK, id="starts a cluster"),
    pytest.param([OTHER, SPARK], True, SPARK_CLUSTERS, SPARK, id="goes on with its cluster"),
    pytest.param([SPARK, OTHER], False, SPARK_CLUSTERS, OTHER, id="starts none too many"),
    pytest.param([SPARK], False, SPARK_CLUSTERS, None, id="leaves the rest to clusters"),
    pytest.param([OTHER], True, SPARK_CLUSTERS, OTHER, id="helps when Spark is done"),
    pytest.param([], True, SPARK_CLUSTERS, None, id="nothing is left"),
])  # fmt: skip
def test_what_a_worker_does_next(waiting: list[str], has_cluster: bool, clusters: int, chosen: str | None) -> None:
    """Spark's files go to the workers with a cluster, of which there are no more than two."""
    assert next_of(waiting, has_cluster, clusters) == chosen
