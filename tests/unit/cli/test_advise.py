"""`colocation advise`: the rule, case by case."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.cli.sizing import MAX_BUCKETS, Workload, advise

from .conftest import Run

MIB, GIB, TIB = 2**20, 2**30, 2**40


@pytest.mark.parametrize(
    ("workload", "buckets", "replicas", "remark"),
    [
        pytest.param(Workload(bytes=50 * GIB, cores=24, nodes=6), 64, 2, "", id="cores decide"),
        pytest.param(Workload(bytes=500 * GIB, cores=24, nodes=6), 512, 2, "", id="files decide"),
        pytest.param(Workload(bytes=500 * GIB, cores=24, nodes=6, partitions=30), 64, 2, "", id="partitioned"),
        pytest.param(Workload(bytes=4 * GIB, cores=32, nodes=6, partitions=4), 32, 2, "", id="small files"),
        pytest.param(Workload(bytes=4 * GIB, cores=32, nodes=6, partitions=40), 32, 2, "under 32 MiB", id="too small"),
        pytest.param(Workload(bytes=100 * MIB, cores=8, nodes=3), 8, 2, "Spark broadcasts it", id="broadcast"),
        pytest.param(Workload(bytes=50 * GIB, cores=4, nodes=3, losses=2), 64, 3, "", id="two losses"),
        pytest.param(Workload(bytes=50 * GIB, cores=4, nodes=1), 64, 1, "all that there are", id="one node"),
        pytest.param(Workload(bytes=8 * GIB, cores=1, nodes=12), 8, 2, "4 nodes hold no bucket", id="many nodes"),
    ],
)
def test_the_rule(workload: Workload, buckets: int, replicas: int, remark: str) -> None:
    """Tasks for all cores, files of 32 MiB to 1 GiB, one replica more than nodes that may be lost."""
    advice = advise(workload)
    assert (advice.buckets, advice.replicas) == (buckets, replicas)
    assert [remark in one for one in advice.remarks] == ([True] if remark else [])


@given(st.builds(Workload, bytes=st.integers(1, 2**55), cores=st.integers(1, 10**5), nodes=st.integers(1, 5000),
                 partitions=st.integers(1, 10**4), losses=st.integers(0, 10)))  # fmt: skip
def test_advice_is_always_a_valid_spec(workload: Workload) -> None:
    """Whatever is given: a group that admission takes, and never fewer buckets than cores while that is allowed."""
    advice = advise(workload)
    assert 1 <= advice.replicas <= min(7, workload.nodes)
    assert min(workload.cores, MAX_BUCKETS) <= advice.buckets <= MAX_BUCKETS


@pytest.mark.parametrize(("text", "count"), [("500Gi", 500 * GIB), ("1.5T", 3 * TIB // 2), ("64MiB", 64 * MIB)])
def test_sizes_as_people_write_them(run: Run, text: str, count: int) -> None:
    """Units are powers of 1024."""
    done = run("advise", "--size", text, "--cores", "1", "--nodes", "1", "--survive", "0", "-o", "json")
    assert json.loads(done.stdout)["diskBytesPerNode"] == int(count / 0.6)


@pytest.mark.parametrize("text", ["much", "-1Gi", "0", "nan", "inf", ""])
def test_what_is_no_size(run: Run, text: str) -> None:
    """The message says what is allowed."""
    done = run("advise", f"--size={text}", "--cores", "1", "--nodes", "1")
    assert done.exit_code == 2
    assert "allowed: a size such as 500Gi" in done.stderr
