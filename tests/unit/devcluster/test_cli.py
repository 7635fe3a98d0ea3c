"""What the command line takes and refuses."""

from pathlib import Path

import pytest

from devcluster import cli, cluster, paths
from devcluster.errors import DevclusterError


def exit_code(*arguments: str) -> int:
    """argparse leaves by SystemExit, we return."""
    try:
        return cli.main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["up", "--nodes", "0"], "'0' given, 1 to 200 allowed", id="no nodes"),
        pytest.param(["up", "--nodes", "many"], "'many' given, 1 to 200 allowed", id="not a number"),
        pytest.param(["kill-node", "x"], "'x' given; a node's number (2) or name (node-2) allowed", id="no node"),
        pytest.param(["build-image", "--file", "D", "--tag", "t", "--build-arg", "X", "."],
                     "'X' given, KEY=VALUE allowed", id="build argument"),
        pytest.param(["build-image", "--file", "missing", "--tag", "t", "."],
                     "--file missing given, which does not exist", id="no Dockerfile"),
        pytest.param(["build", "docker"], "component 'docker' given, pause, kubernetes", id="unknown component"),
        pytest.param(["shape-links"], "--rate --off is required", id="neither rate nor off"),
        pytest.param(["explode"], "invalid choice: 'explode'", id="unknown command"),
        pytest.param([], "COMMAND", id="no command"),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what was given and what is allowed."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert exit_code(*arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("number", ["2", "node-2"])
def test_a_node_by_number_or_name(number: str) -> None:
    """As kubectl shows it."""
    assert cli.build_parser().parse_args(["heal-node", number]).number == 2


@pytest.mark.parametrize("command", ["up", "down"])
def test_the_users_own_cluster_is_left_alone(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is built, started or ended."""
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/config")
    monkeypatch.setattr(cluster, command, lambda *_: pytest.fail("touched"))
    assert exit_code(command) == 0
    assert "your cluster is used (/home/me/.kube/config)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["kill-node", "1"], ["add-node"], ["load-image", "x"], ["status"], ["shape-links", "--off"]]
)
def test_the_users_own_nodes_are_left_alone(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """These commands know only the embedded cluster."""
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/config")
    assert exit_code(*arguments) == 1


def test_our_own_kubeconfig_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """After `eval "$(… env)"` all commands work on."""
    monkeypatch.setenv("KUBECONFIG", str(paths.KUBECONFIG))
    assert cluster.users_kubeconfig() is None


def test_env_prints_lines_for_eval(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, and nothing else there."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert exit_code("env") == 0
    assert capsys.readouterr().out.splitlines() == [
        f'export PATH={paths.BIN}:"$PATH"',
        f"export KUBECONFIG={paths.KUBECONFIG}",
    ]


def test_a_failure_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason, without a traceback."""
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def fail(_: int) -> None:
        raise DevclusterError("no luck")

    monkeypatch.setattr(cluster, "start_node", fail)
    assert exit_code("start-node", "1") == 1
    assert "failed: no luck" in capsys.readouterr().err


def test_no_cluster_is_no_health(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`status` shows it by its exit code."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(paths, "PROCESSES", tmp_path / "processes")
    monkeypatch.setattr(paths, "NODES", tmp_path / "nodes")
    assert exit_code("status") == 1
