"""What users do side by side, and what the runner puts back before all is to be well."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from demo.shell import CommandFailed

from . import cluster_view, scene, work
from .failing import do_nothing
from .history import INVOKE, History
from .plan import Step
from .session import Session
from .work import Work, refusing, stays_for_its_replicas

G = "group-3"


def test_a_burst_of_commits_overtakes_a_long_query(users: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the table that no one drops; there are more of them than its history keeps."""
    loads, asked = list[tuple[str, str]](), list[str]()
    monkeypatch.setattr(users, "load", lambda mode, table, _parts: loads.append((mode, table)))
    users.ask_long = asked.append
    users.do(Step(1, 0.0, 0, "burst", 0.5))
    assert (asked, set(loads)) == (["t"], {("overwrite-partitions", "t")})
    assert len(loads) > scene.table_spec("base")["retention"]["snapshots"]


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> Work:
    """There is a table, and two groups on a cluster with nodes enough; each command succeeds and changes nothing."""
    monkeypatch.setattr(scene, "patch", do_nothing)
    monkeypatch.setattr(scene, "apply", do_nothing)
    monkeypatch.setattr(scene, "running", lambda: range(4))
    clock = iter(range(1000))
    history = History(clock=lambda: float(next(clock)))
    users = Work(history, Session(history), 1, tables=["t"])
    users.sync([table("base", "base")], groups(), users.about_to_list())
    return users


def table(named: str, group: str) -> dict[str, Any]:
    """One whose spec names a group, and that is in another one, or none, or the same."""
    return {"metadata": {"name": "t"}, "spec": {"colocateWith": named}, "status": {"group": group}}


def groups(replicas: int = scene.REPLICAS) -> list[dict[str, Any]]:
    """The first group, and another one with so many replicas."""
    sizes = {"base": scene.REPLICAS, G: replicas}
    return [{"metadata": {"name": name}, "spec": {"replicas": size}} for name, size in sizes.items()]


def raised(users: Work) -> set[str]:
    """The groups whose replicas are raised, if that is tried often."""
    first = len(users.history.events)
    for seed in range(40):
        users._replicas(Random(seed))
    found = [event.detail for event in users.history.since(first) if event.kind == INVOKE]
    return {detail["group"] for detail in found if detail["replicas"] > scene.REPLICAS}


@pytest.mark.parametrize(
    ("named", "group", "expected"),
    [
        pytest.param("base", "base", {"base", G}, id="it is at rest"),
        pytest.param(G, "base", {"base"}, id="it moves"),
        pytest.param(G, "", {"base"}, id="it is new"),
        pytest.param("", "", {"base", G}, id="it is new and names none"),
    ],
)
def test_replicas_of_a_group_that_a_table_is_on_its_way_to_are_not_raised(
    named: str, group: str, expected: set[str], users: Work
) -> None:
    """The group would refuse the table, and loads of it would fail for good."""
    users.sync([table(named, group)], groups(), users.about_to_list())
    assert raised(users) == expected


@pytest.mark.parametrize(
    "send",
    [
        pytest.param(lambda users: users._command("move", lambda: None, table="t", group=G), id="a move"),
        pytest.param(lambda users: users.make_table("u", G), id="a new table"),
    ],
)
def test_a_table_that_was_just_sent_is_on_its_way_until_a_list_shows_it(
    send: Callable[[Work], None], users: Work
) -> None:
    """While its command runs, and as long as the newest list was asked for before the command ended."""
    asked = users.about_to_list()
    send(users)
    users.sync([table("base", "base")], groups(), asked)
    assert raised(users) == {"base"}
    users.sync([table("base", "base")], groups(), users.about_to_list())
    assert raised(users) == {"base", G}


def test_a_table_that_is_being_sent_is_on_its_way(users: Work) -> None:
    """Before the API server has answered."""
    seen: list[set[str]] = []
    users._command("move", lambda: seen.append(raised(users)), table="t", group=G)
    assert seen == [{"base"}]


def test_a_group_that_keeps_a_table_out_may_have_its_replicas_back(users: Work) -> None:
    """Then it takes the table."""
    users.sync([table(G, "base")], groups(scene.REPLICAS + 1), users.about_to_list())
    assert raised(users) == {"base"}
    assert users.replicas[G] == scene.REPLICAS


def test_a_list_that_is_older_than_a_change_does_not_undo_it(users: Work) -> None:
    """Else a table would be sent to a group that has just got more replicas."""
    asked = users.about_to_list()
    users._set_replicas(G, 3)
    users.sync([table("base", "base")], groups(), asked)
    assert users._open_groups() == ["base"]
    users.sync([table("base", "base")], groups(), users.about_to_list())
    assert users._open_groups() == ["base", G]


def test_dropped_tables_come_back_before_all_is_well(users: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows have to be proved, too. Each is asked for until it is there, or it is said that there is nothing."""
    answers = {"empty": "there is nothing to recover", "away": "connection refused", "back": ""}

    def run(command: list[str], **_: object) -> None:
        if said := answers[command[2]]:
            raise CommandFailed(f"{command} exited with 1\n{said}")

    monkeypatch.setattr(work, "run", run)
    monkeypatch.setattr(cluster_view, "get", lambda *_: [])
    monkeypatch.setattr(cluster_view, "groups_and_tables", lambda: ([], []))
    users.binned = list(answers)
    users.undo()
    assert users.to_bring_back() == ["away", "back"]
    back = {**table("base", "base"), "metadata": {"name": "back"}}
    users.sync([table("base", "base"), back], groups(), users.about_to_list())
    assert users.to_bring_back() == ["away"]
    users.undo()
    asked = [event.detail["table"] for event in users.history.events if event.kind == INVOKE]
    assert asked == ["empty", "away", "back", "away"]


@pytest.mark.parametrize(
    ("replicas", "named", "accepted", "expected"),
    [
        pytest.param(scene.REPLICAS + 1, "base", False, ["base"], id="raised before the table was accepted"),
        pytest.param(scene.REPLICAS + 1, "base", True, [], id="raised after the table was accepted"),
        pytest.param(scene.REPLICAS, "base", False, [], id="refused for another reason"),
        pytest.param(scene.REPLICAS + 1, "", False, [], id="the table names no group"),
    ],
)
def test_only_groups_whose_replicas_keep_a_table_out(
    replicas: int, named: str, accepted: bool, expected: list[str]
) -> None:
    groups: list[dict[str, Any]] = [{"metadata": {"name": "base"}, "spec": {"replicas": replicas}}]
    tables = [{"spec": {"colocateWith": named}, "status": {"accepted": accepted}}]
    assert refusing(groups, tables) == expected


@pytest.mark.parametrize(
    ("own", "of_group", "ready", "expected"),
    [
        pytest.param(3, 2, "True", True, id="its spec has other replicas than the group, and stays where it is"),
        pytest.param(3, 2, "False", False, id="it takes no loads where it is"),
        pytest.param(2, 2, "True", False, id="the group has as many"),
        pytest.param(None, 2, "True", False, id="its spec has none"),
    ],
)
def test_a_table_of_other_replicas_stays(own: int | None, of_group: int, ready: str, expected: bool) -> None:
    """It was brought back in no group, where its spec has to say how many it has."""
    spec = {"colocateWith": G} | ({} if own is None else {"replicas": own})
    table = {"spec": spec, "status": {"accepted": False, "conditions": [{"type": "Ready", "status": ready}]}}
    assert stays_for_its_replicas(table, groups(of_group)) is expected
