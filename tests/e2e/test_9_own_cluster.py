"""README's paths on a cluster of one's own, word for word: the dev cluster is the user's, without an image of ours."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo import cluster, data
from devcluster import binaries, paths
from devcluster import cluster as devcluster

from . import kept_logs
from .own_cluster import commands, leftovers, readme, servers

pytestmark = [pytest.mark.e2e, pytest.mark.deep]

SCALE_FACTOR = 0.01
DISK_GIB = 4
"""Of each node: by the chart's defaults loads need 19 % of this machine's disk free if the nodes share that."""
BLOCK_SECONDS = 1200
TOP_DAYS = """
SELECT o_orderdate, sum(l_extendedprice) AS price FROM orders JOIN lineitem ON o_orderkey = l_orderkey
GROUP BY o_orderdate ORDER BY price DESC, o_orderdate LIMIT 3
"""


@dataclass(frozen=True)
class Reader:
    """Who follows the README: a shell in the repository, with tools of their own before the project's."""

    tools: Path
    oracle: data.Oracle

    def run(self, block: str) -> str:
        """What a block of commands printed; it has to succeed."""
        environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=readme.REPOSITORY, env=environment, text=True,
            capture_output=True, timeout=BLOCK_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A fresh cluster, a registry, a lake with TPC-H in it, and an environment where ``pip install`` goes."""
    if theirs := devcluster.users_kubeconfig():
        pytest.fail(f"KUBECONFIG names a cluster of yours ({theirs}); this test makes its own, so unset it")
    tmp_path = tmp_path_factory.mktemp("own")
    binaries.ensure(binaries.SERVERS)
    folder = data.generate(SCALE_FACTOR)
    keys = readme.REPOSITORY / "lake.env"
    try:
        devcluster.up(3, disk_gib=DISK_GIB)
        cluster.use_embedded_cluster()
        with ExitStack() as stack:
            for name in ("registry", "store"):
                (tmp_path / name).mkdir()
            stack.enter_context(servers.registry(tmp_path / "registry"))
            files = {f"{table}/{table}.parquet": folder / f"{table}.parquet" for table in data.TABLES}
            stack.enter_context(servers.store(tmp_path / "store", files))
            keys.write_text(
                f"AWS_ACCESS_KEY_ID={servers.ACCESS_KEY}\nAWS_SECRET_ACCESS_KEY={servers.SECRET_KEY}\n"
                f"AWS_ENDPOINT_URL=http://{servers.STORE}\n"
            )
            yield Reader(_tools(tmp_path), data.Oracle(folder))
    finally:
        keys.unlink(missing_ok=True)
        if os.environ.get("KEEP", "0") in ("", "0"):
            devcluster.end_run()


def _tools(folder: Path) -> Path:
    """A folder for the PATH: a fresh Python environment, docker and kind."""
    venv.create(folder / "venv", with_pip=True)
    tools = folder / "venv" / "bin"
    for name in ("docker", "kind"):
        command = f'"{sys.executable}" "{Path(readme.__file__).with_name(name)}"'
        (tools / name).write_text(f'#!/bin/sh\nPYTHONPATH="{readme.REPOSITORY}" exec {command} "$@"\n')
        (tools / name).chmod(0o755)
    return tools


@pytest.mark.timeout(2400)
def test_the_quickstart_on_a_kind_cluster(reader: Reader, tmp_path: Path) -> None:
    """``make quickstart`` with kind's context, twice: no registry, images are imported into the nodes.

    The join is Spark's, by the user's rights in the namespace, and has no shuffle under it. It comes before the tests
    with a registry: of an image that it has pulled, a kubelet asks the registry again under any other name.
    """
    kubeconfig = tmp_path / "mine"
    shutil.copy(paths.KUBECONFIG, kubeconfig)
    use = f"export KUBECONFIG={kubeconfig}; unset REGISTRY"
    quickstart, removal = readme.quickstart()
    try:
        reader.run(f"{use}; kubectl config rename-context $(kubectl config current-context) kind-colocation")
        for _ in range(2):
            said = reader.run(f"{use}; {quickstart}")
            joined = said[said.index("JOIN lineitem") :]
            assert "colocate: true" in joined and re.search(r"^1995-01-01 +[\d.]+$", joined, re.MULTILINE), said
        reader.run(f"{use}; {removal}")
        assert leftovers.unexpected() == []
    except BaseException as error:
        error.add_note(kept_logs.keep("quickstart"))
        raise


def test_the_readme_leads_to_a_colocated_join(reader: Reader, tmp_path: Path) -> None:
    """Every command succeeds as it stands; the lake's rows are joined without a shuffle, and the answer is DuckDB's.

    What helps on the way works there, too; and in the end nothing is left but what the pages say.
    """
    wheel, images, operator, namespace, tables, joins, removal = readme.commands(servers.REGISTRY)
    try:
        for block in (wheel, images, operator, namespace, tables):
            reader.run(block)
        said = reader.run(joins)
        _check_joins(said, reader.oracle)
        assert servers.SECRET_KEY not in _everything_but_secrets()
        commands.check(reader.tools, tmp_path, (servers.SECRET_KEY, servers.ACCESS_KEY))
        reader.run(removal)
        assert leftovers.unexpected() == []
    except BaseException as error:
        error.add_note(kept_logs.keep("own_cluster"))
        raise


def test_the_demo_runs_on_it(reader: Reader, tmp_path: Path) -> None:
    """Refused while something of ours is there; then it drains the node that is named, and leaves nothing."""
    kubeconfig = tmp_path / "mine"
    shutil.copy(paths.KUBECONFIG, kubeconfig)
    demo = f"KUBECONFIG={kubeconfig} IMAGE_REGISTRY={servers.REGISTRY} LOSE_NODE=node-2"
    demo += f" DATA_ROOT={paths.DATA_ROOT}/demo {sys.executable} -m demo run"  # the nodes share all other folders
    try:
        reader.run(f"! {demo} 2> {tmp_path}/refusal && grep 'the cluster has colocation-system' {tmp_path}/refusal")
        reader.run("kubectl delete namespace colocation-system; kubectl delete -f charts/colocation-operator/crds")
        said = reader.run(demo)
        assert '"node_drained"' in said and "demo failed" not in said
        assert leftovers.unexpected(frozenset()) == []
    except BaseException as error:
        error.add_note(kept_logs.keep("demo_on_own_cluster"))
        raise


def _check_joins(said: str, oracle: data.Oracle) -> None:
    for table in data.TABLES:
        assert f"loaded {oracle.row_count(table)} rows into {table}:" in said
    assert "colocate: true" in said
    for day, price in oracle.rows(TOP_DAYS):
        assert any(str(day) in line and str(price) in line for line in said.splitlines()), said


def _everything_but_secrets() -> str:
    kinds = "jobs,pods,configmaps,events,colocatedtables,colocationgroups"
    return subprocess.run(
        ["kubectl", "get", kinds, "--all-namespaces", "-o", "yaml"], capture_output=True, text=True, check=True
    ).stdout
