"""`-A` and `--watch`."""

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from colocation.cli.errors import CommandFailed
from colocation.cli.terminal import live

from ..conftest import FakeCluster, Run, group_object, table_object

MIB = 2**20


def test_all_namespaces_begin_with_the_namespace(run: Run, cluster: FakeCluster) -> None:
    """Of groups and tables; what is wrong is said of NAMESPACE/NAME."""
    other = group_object("ledger", stable=None)
    other["metadata"]["namespace"] = "accounts"
    cluster.groups().append(other)
    refused = table_object("entries")
    refused["metadata"]["namespace"] = "accounts"
    refused["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "GroupFull", "message": "full"}]
    cluster.tables().append(refused)
    header, sales, ledger = run("groups", "-A").stdout.splitlines()
    assert (header.split()[:2], sales.split()[:2], ledger.split()[:2]) == (
        ["NAMESPACE", "NAME"], ["shop", "sales"], ["accounts", "ledger"],
    )  # fmt: skip
    shown = run("tables", "--all-namespaces").stdout
    assert "accounts    entries" in shown
    assert shown.splitlines()[-1] == "accounts/entries: GroupFull: full"


def test_running_clones_say_how_far_they_are(run: Run, cluster: FakeCluster) -> None:
    """With their number."""
    cluster.groups()[0]["status"]["clones"] = {"running": 2, "pending": 1, "bytesDone": MIB, "bytesTotal": 4 * MIB}
    assert "2 running (1.0 MiB of 4.0 MiB), 1 pending" in run("groups").stdout


@pytest.fixture
def three_looks(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> None:
    """A user who presses Ctrl-C at the third look; before the second one nothing changes, before the third one does."""
    looks = iter(range(2))

    def sleep(seconds: float) -> None:
        if next(looks) == 1:
            cluster.groups()[0]["status"]["stable"] = False
        else:
            return
        monkeypatch.setattr(live.time, "sleep", interrupt)

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(live.time, "sleep", sleep)


def test_watch_prints_what_changed(run: Run, three_looks: None) -> None:
    """Where no terminal is there, each view that differs from the one before; Ctrl-C ends it well."""
    done = run("groups", "--watch")
    assert done.exit_code == 0
    verdicts = [line.split()[5] for line in done.stdout.splitlines() if line.startswith("sales")]
    assert verdicts == ["true", "false"]


def test_watch_is_for_people(run: Run, cluster: FakeCluster) -> None:
    """A program would not know where one document ends."""
    done = run("tables", "-w", "-o", "json")
    assert done.exit_code == 2
    assert "kubectl get --watch" in done.stderr


AWAY = ApiException(status=503, reason="restarting")


def test_watch_outlasts_a_restart(run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the API server, for example: its absence is said once, and what is there afterwards is shown again."""
    answers = iter([cluster.groups(), AWAY, AWAY, cluster.groups(), KeyboardInterrupt()])

    def groups() -> list[dict[str, Any]]:
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(cluster, "groups", groups)
    monkeypatch.setattr(live.time, "sleep", lambda seconds: None)
    done = run("groups", "--watch")
    assert done.exit_code == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["NAME", "sales"] * 2
    assert done.stderr == "warning: the cluster answered 503: restarting; asking again, until Ctrl-C\n"


@pytest.mark.parametrize("first", [AWAY, CommandFailed("no cluster")])
def test_watch_of_what_was_never_seen_fails(
    run: Run, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, first: Exception
) -> None:
    """A mistake does not pass by waiting."""

    def groups() -> None:
        raise first

    monkeypatch.setattr(cluster, "groups", groups)
    assert run("groups", "--watch").exit_code == 1
