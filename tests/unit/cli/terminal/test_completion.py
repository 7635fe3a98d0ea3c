"""`colocation completion`: scripts that shells can read, and names that the API server knows."""

import shutil
import subprocess

import pytest
from click.shell_completion import get_completion_class
from kubernetes.client import ApiException

from colocation.cli.main import main
from colocation.cli.terminal import completion, options

from ..conftest import FakeCluster, Run


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_a_script_for_each_shell(run: Run, shell: str) -> None:
    """It asks the command itself; bash, which is everywhere here, parses its own."""
    done = run("completion", shell)
    assert done.exit_code == 0
    assert completion.VARIABLE in done.stdout
    if shell == "bash":
        bash = shutil.which("bash")
        assert bash
        subprocess.run([bash, "-n"], input=done.stdout, text=True, check=True)


def completions(words: list[str], incomplete: str) -> list[str]:
    made = get_completion_class("bash")
    assert made
    offered = made(main, {}, "colocation", completion.VARIABLE).get_completions(words, incomplete)
    return [item.value for item in offered]


@pytest.mark.parametrize(
    ("words", "incomplete", "offered"),
    [
        pytest.param([], "dr", ["drain", "drop-partitions"], id="commands"),
        pytest.param(["drain", "--w"], "--w", ["--wait"], id="options"),
        pytest.param(["show"], "sa", ["sales"], id="groups"),
        pytest.param(["load"], "", ["orders"], id="tables"),
        pytest.param(["load"], "x", [], id="no such table"),
        pytest.param(["groups", "-o"], "j", ["json"], id="choices"),
    ],
)
def test_what_is_offered(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, words: list[str], incomplete: str, offered: list[str]
) -> None:
    """Commands and options by themselves, names by the namespace."""
    monkeypatch.setattr(options, "Cluster", lambda context, namespace: cluster)
    assert completions(words, incomplete) == offered


def test_a_cluster_that_does_not_answer_offers_nothing(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> None:
    """A shell has no place for an error."""

    def refuse() -> None:
        raise ApiException(status=401)

    monkeypatch.setattr(cluster, "groups", refuse)
    monkeypatch.setattr(options, "Cluster", lambda context, namespace: cluster)
    assert completions(["show"], "") == []
