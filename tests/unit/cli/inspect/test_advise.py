"""`colocation advise`: the rule, case by case."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client.exceptions import ApiException

from colocation.cli.inspect.sizing import MAX_BUCKETS, Workload, suggest

from ..conftest import FakeCluster, Run

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
        pytest.param(Workload(bytes=50 * GIB, cores=4, nodes=1), 64, 1, "--survive 1 needs 2 nodes", id="one node"),
        pytest.param(Workload(bytes=8 * GIB, cores=1, nodes=12), 8, 2, "4 nodes hold no bucket", id="many nodes"),
    ],
)
def test_the_rule(workload: Workload, buckets: int, replicas: int, remark: str) -> None:
    """Tasks for all cores, files of 32 MiB to 1 GiB, one replica more than nodes that may be lost."""
    advice = suggest(workload)
    assert (advice.buckets, advice.replicas) == (buckets, replicas)
    assert [remark in one for one in advice.remarks] == ([True] if remark else [])


@given(st.builds(Workload, bytes=st.integers(1, 2**55), cores=st.integers(1, 10**5), nodes=st.integers(1, 5000),
                 partitions=st.integers(1, 10**4), losses=st.integers(0, 10)))  # fmt: skip
def test_advice_is_always_a_valid_spec(workload: Workload) -> None:
    """Whatever is given: a group that admission takes, and never fewer buckets than cores while that is allowed."""
    advice = suggest(workload)
    assert 1 <= advice.replicas <= min(7, workload.nodes)
    assert min(workload.cores, MAX_BUCKETS) <= advice.buckets <= MAX_BUCKETS


@pytest.mark.parametrize(("text", "count"), [("500Gi", 500 * GIB), ("1.5T", 3 * TIB // 2), ("64MiB", 64 * MIB)])
def test_sizes_as_people_write_them(run: Run, text: str, count: int) -> None:
    """Units are powers of 1024."""
    done = run("advise", "--size", text, "--cores", "1", "--nodes", "1", "--survive", "0", "-o", "json")
    assert json.loads(done.stdout)["diskBytesPerNode"] == int(count / 0.6)


def node(name: str, cores: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"cpu": cores}}}


NODES = [node("node-1", "8"), node("node-2", "7800m"), node("other", "64"), node("cordoned", "64", unschedulable=True)]


def test_a_table_of_the_cluster(run: Run, cluster: FakeCluster) -> None:
    """Its newest snapshot and its group's nodes say what is not given."""
    cluster.tables()[0]["status"]["snapshot"].update(bytes=500 * GIB, partitions=30)
    cluster.nodes = lambda: NODES  # type: ignore[attr-defined]
    found = json.loads(run("advise", "orders", "-o", "json").stdout)
    assert [found[key] for key in ("bytes", "partitions", "cores", "nodes")] == [500 * GIB, 30, 15, 2]
    given = run("advise", "orders", "--cores", "4", "--nodes", "5", "--partitions", "1")
    assert given.stdout.startswith("for 500.0 GiB, 4 cores, 5 nodes\n\nbuckets: 512\nreplicas: 2\n")


def test_a_table_without_rows(run: Run, cluster: FakeCluster) -> None:
    """Its future size is not known."""
    del cluster.tables()[0]["status"]["snapshot"]
    done = run("advise", "orders", "--cores", "4", "--nodes", "5")
    assert (done.exit_code, "holds no rows yet: give --from or --size" in done.stderr) == (1, True)


def test_files_of_this_machine(run: Run, cluster: FakeCluster, tmp_path: Path) -> None:
    """What Spark would read, partition by partition; nodes that take no pods do not count."""
    for day in ("dt=1", "dt=2", "_temporary"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "part-0.parquet").write_bytes(b"x" * 600)
        (tmp_path / day / "_SUCCESS").write_bytes(b"x" * 600)
    cluster.nodes = lambda: NODES  # type: ignore[attr-defined]
    found = json.loads(run("advise", "--from", str(tmp_path), "-o", "json").stdout)
    assert [found[key] for key in ("bytes", "partitions", "cores", "nodes")] == [1200, 2, 79, 3]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param([], "name one of TABLE, --from and --size", id="nothing"),
        pytest.param(["orders", "--size", "1Gi"], "name one of TABLE, --from and --size", id="two"),
        pytest.param(["--from", "s3a://lake/orders"], "is not on this machine", id="object store"),
        pytest.param(["--from", "/nowhere"], "there is no file or folder /nowhere", id="no file"),
    ],
)
def test_what_it_is_about_has_to_be_clear(run: Run, arguments: list[str], words: str) -> None:
    """Wrong usage, and no cluster is asked."""
    done = run("advise", *arguments, "--cores", "4", "--nodes", "5")
    assert (done.exit_code, words in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("text", ["much", "-1Gi", "0", "nan", "inf", ""])
def test_what_is_no_size(run: Run, text: str) -> None:
    """The message has what is allowed."""
    done = run("advise", f"--size={text}", "--cores", "1", "--nodes", "1")
    assert done.exit_code == 2
    assert "allowed: a size such as 500Gi" in done.stderr


def test_without_the_right_to_list_nodes_they_are_to_be_given(run: Run, cluster: FakeCluster) -> None:
    """A tenant has no such right; with both given, the nodes are not asked for."""

    def refuse() -> list[dict[str, Any]]:
        raise ApiException(status=403, reason="Forbidden")

    cluster.nodes = refuse  # type: ignore[attr-defined]
    done = run("advise", "--size", "1Gi", "--cores", "4")
    assert (done.exit_code, "; or give both --cores and --nodes\n" in done.stderr) == (1, True)
    assert run("advise", "--size", "1Gi", "--cores", "4", "--nodes", "3").exit_code == 0
