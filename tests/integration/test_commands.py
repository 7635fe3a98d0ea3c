"""Every command that asks the cluster, on a real API server, as people meet it who have no rights, or mistype.

Nothing ends in a traceback, each message names what to do, and the exit code is that of a failure.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from kubernetes.config import kube_config

from colocation.cli.main import main

from .accounts import user_roles
from .control_plane import ControlPlane
from .objects import as_json, group, table

Colocation = Callable[..., Result]
As = Callable[[Path], Colocation]

IN_A_NAMESPACE = [
    "groups", "tables", "show sales", "events sales", "approve sales", "recover orders", "advise orders",
    "load orders --from s3a://lake/orders --direct --no-wait", "compact orders --direct --no-wait",
    "drop-partitions orders --partition o_orderdate=1 --direct --no-wait", "roll-back orders --to 1 --direct --no-wait",
]  # fmt: skip
STATEMENT = "sql select --direct --timeout 0"
OF_THE_CLUSTER = [
    "groups -A", "tables -A", "nodes", "plan sales", "snapshot", "drain node-1", "undrain node-1",
    "drain node-1 --wait --timeout 0", "accept-disk node-1 0123456789abcdef", "adopt", "adopt --discard",
    "advise --size 1Gi", "init -n commands-new",
]  # fmt: skip


@pytest.fixture
def colocation(monkeypatch: pytest.MonkeyPatch) -> As:
    """``colocation(kubeconfig)("show sales")``: the command as the owner of a kubeconfig."""

    def bound(kubeconfig: Path) -> Colocation:
        monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(kubeconfig))

        def run(line: str, *more: str) -> Result:
            done = CliRunner().invoke(main, [*line.split(), *more])
            assert isinstance(done.exception, SystemExit | None), f"{line}: {done.exception!r}"
            return done

        return run

    return bound


@pytest.fixture
def shop(cluster: ControlPlane, namespace: str) -> str:
    """A namespace with two groups, of which one has a table."""
    cluster.kubectl("apply", "-f", "-", stdin=user_roles())
    for name in ("sales", "stock"):
        body = group()
        body["metadata"]["name"] = name  # type: ignore[index]
        assert cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=as_json(body)).returncode == 0
        settings = "--from-literal=spark-defaults.conf=spark.kubernetes.container.image spark:1"
        cluster.kubectl("create", "configmap", f"{name}-spark", "-n", namespace, settings)
    made = cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=as_json(table("orders", colocateWith="sales")))
    assert made.returncode == 0, made.stderr
    return namespace


@pytest.fixture
def no_one(cluster: ControlPlane, shop: str, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of an account without any right."""
    cluster.kubectl("create", "serviceaccount", "outsider", "-n", shop)
    settings = yaml.safe_load(cluster.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": cluster.kubectl("create", "token", "outsider", "-n", shop).stdout}
    settings["contexts"][0]["context"]["namespace"] = shop
    file = tmp_path / "outsider"
    file.write_text(yaml.safe_dump(settings))
    yield file
    cluster.kubectl("delete", "serviceaccount", "outsider", "-n", shop)


def failures(run: Colocation, lines: list[str], said: str, *more: str) -> list[str]:
    """The lines that do not end with exit code 1 and these words on standard error."""
    ends = [(line, run(line, *more)) for line in lines]
    wrong = [(line, one) for line, one in ends if one.exit_code != 1 or said not in one.stderr]
    return [f"{line}: {one.exit_code} {one.stderr}" for line, one in wrong]


def test_without_rights_each_command_reports_it(colocation: As, no_one: Path) -> None:
    """And where the rights are listed; `doctor` raises no alarm about them."""
    run = colocation(no_one)
    assert failures(run, [*IN_A_NAMESPACE, STATEMENT, *OF_THE_CLUSTER], "you may not do this: ") == []
    doctor = run("doctor")
    assert doctor.exit_code == 0
    assert [line for line in doctor.stdout.splitlines() if line.startswith(("WARN", "FAIL"))] == []
    assert doctor.stdout.count("not checked") == 1


def test_in_a_namespace_that_does_not_exist(cluster: ControlPlane, colocation: As, shop: str) -> None:
    """The API server lists nothing there, and tells no one."""
    run = colocation(cluster.kubeconfig)
    assert failures(run, [*IN_A_NAMESPACE, STATEMENT], "there is no namespace 'nope': ", "-n", "nope") == []
    assert "there is no namespace nope" in run("doctor", "-n", "nope").stdout


def test_an_api_server_that_is_away(cluster: ControlPlane, colocation: As, tmp_path: Path) -> None:
    """Which one, and why."""
    settings = yaml.safe_load(cluster.kubeconfig.read_text())
    settings["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "away").write_text(yaml.safe_dump(settings))
    run = colocation(tmp_path / "away")
    every = [*IN_A_NAMESPACE, STATEMENT, *OF_THE_CLUSTER, "doctor"]
    assert failures(run, every, "cannot be reached: https://127.0.0.1:1: Connection refused; check the network") == []


@pytest.mark.parametrize(("line", "exit_code", "said"), [
    pytest.param("show slaes", 1, "there is no group 'slaes'", id="no such group"),
    pytest.param("show other/sales", 1, "give that: sales -n other", id="a group of another namespace"),
    pytest.param("load colocation.other.orders --from x", 1, "give that: orders -n other", id="a table's name in SQL"),
    pytest.param("show sales -n default", 1, "there are: none; `colocation groups -A` lists", id="no groups here"),
    pytest.param("advise orders -n default", 1, "`colocation tables -A` lists", id="no tables here"),
    pytest.param("load oders --from x --direct", 1, "there is no table 'oders'", id="no such table"),
    pytest.param("drain nood-1", 1, "there is no node 'nood-1'; there are: ", id="no such node"),
    pytest.param("groups --context nope", 1, "has no context 'nope'; there are: integration", id="no such context"),
    pytest.param("nodes", 1, "no operator runs in namespace 'colocation-system'", id="no operator"),
    pytest.param("load orders --from x", 1, "--direct runs applications without any", id="no Spark operator"),
    pytest.param("groups -n Shop", 2, "allowed: at most 63 lower-case letters", id="no name"),
])  # fmt: skip
def test_mistakes(
    cluster: ControlPlane, colocation: As, shop: str, line: str, exit_code: int, said: str
) -> None:
    """The message names what there is, or what is allowed."""
    in_shop = () if "-n" in line.split() or line.split()[0] in {"drain", "nodes"} else ("-n", shop)
    done = colocation(cluster.kubeconfig)(line, *in_shop)
    assert (done.exit_code, said in done.stderr) == (exit_code, True), done.stderr


def test_the_group_of_a_statement_needs_no_option(cluster: ControlPlane, colocation: As, shop: str) -> None:
    """Of two groups one has the table; the Job is of that one."""
    shown = colocation(cluster.kubeconfig)("sql", "select count(*) from orders", "--direct", "--dry-run", "-n", shop)
    assert shown.exit_code == 0, shown.stderr
    assert yaml.safe_load(shown.stdout)["metadata"]["labels"]["colocation.dev/group"] == "sales"
