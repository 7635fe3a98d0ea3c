"""For how long a file has been seen unneeded: never longer than it was, whatever happens to agents and the ledger."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from colocation.storage.ages import Ages, older
from colocation.storage.ledger import FileIdentity, Ledger

PLACE = "shop/orders-0a1b2c3d"
A, B = FileIdentity(1, 2, 3), FileIdentity(1, 4, 3)


class Node:
    """A ledger, and the agents that run on it one after the other, each with its own monotonic clock."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger"
        self.seconds = 0.0
        self.start()

    def start(self) -> None:
        """Start a new agent."""
        self.ledger = Ledger(self.path)
        self.ages = Ages(self.ledger, lambda: self.seconds)

    def restart(self, is_killed: bool = False) -> None:
        """End the agent and start another later."""
        if not is_killed:
            self.ages.save()
        self.ledger.close()
        self.seconds -= 1000.0  # of another boot
        self.start()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_age_counts_from_the_first_sighting(node: Node) -> None:
    """It ends when the file is no longer seen, looks different, or is needed."""
    assert node.ages.of(PLACE, {"a": A, "b": A, "c": A}) == {"a": 0.0, "b": 0.0, "c": 0.0}
    node.seconds += 10
    assert node.ages.of(PLACE, {"a": A, "b": B}) == {"a": 10.0, "b": 0.0}
    node.seconds += 10
    assert node.ages.of(PLACE, {"a": A, "b": B, "c": A}) == {"a": 20.0, "b": 10.0, "c": 0.0}
    node.ages.forget(PLACE, ["a"])
    assert node.ages.of(PLACE, {"a": A}, is_all=False) == {"a": 0.0}
    assert node.ages.of(PLACE, {"b": B}, is_all=False) == {"b": 10.0}
    assert node.ages.of("another/place", {"b": B}) == {"b": 0.0}


def test_every_file_is_older_than_zero_seconds() -> None:
    """Including files seen for the first time."""
    assert older({"a": 0.0, "b": 9.0}, 0) == {"a", "b"}
    assert older({"a": 8.9, "b": 9.0}, 9) == {"b"}


def test_a_restart_continues_from_the_recorded_age(node: Node) -> None:
    """A kill loses the time since the last record; nothing is added."""
    node.ages.of(PLACE, {"a": A})
    node.seconds += 10
    node.restart()
    assert node.ages.of(PLACE, {"a": A}) == {"a": 10.0}
    node.seconds += 10
    node.restart(is_killed=True)
    assert node.ages.of(PLACE, {"a": A}) == {"a": 10.0}


def test_without_a_ledger_all_ages_restart(node: Node) -> None:
    """Every file is young again."""
    node.ages.of(PLACE, {"a": A})
    node.seconds += 10
    node.ages.save()
    node.ledger.close()
    shutil.move(node.path, node.path.with_suffix(".lost"))
    node.start()
    assert node.ages.of(PLACE, {"a": A}) == {"a": 0.0}


def test_the_clock_is_recorded_again_after_the_ledger_was_lost(node: Node) -> None:
    """A damaged ledger is replaced while the agent runs."""
    node.seconds += 10
    node.ledger.forget_sightings("", ["clock"])
    node.ages.of(PLACE, {"a": A})
    node.seconds += 10
    node.restart()
    assert node.ages.of(PLACE, {"a": A}) == {"a": 10.0}


def test_ages_grow_on_a_read_only_disk(node: Node) -> None:
    """Otherwise a full disk would keep its garbage; the agent keeps ages in memory."""
    node.ages.of(PLACE, {"a": A, "b": A})
    node.ledger._connection.close()
    node.ledger._connection = sqlite3.connect(f"file:{node.path}?mode=ro", uri=True, check_same_thread=False)
    node.seconds += 10
    assert node.ages.of(PLACE, {"a": A, "c": A}) == {"a": 10.0, "c": 0.0}
    node.seconds += 10
    node.ages.save()
    assert node.ages.of(PLACE, {"a": A, "b": A, "c": A}) == {"a": 20.0, "b": 0.0, "c": 10.0}
    node.ages.forget(PLACE, ["a"])
    assert node.ages.of(PLACE, {"a": A}) == {"a": 0.0}


def test_the_previous_releases_ledger_on_a_read_only_disk(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no table for sightings; its entries still count."""
    node.ledger._connection.execute("DROP TABLE sighted")
    node.ledger.close()
    error = sqlite3.OperationalError("read-only")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY
    monkeypatch.setattr("colocation.storage.ledger._connect", _raising(error))
    node.start()
    assert node.ages.of(PLACE, {"a": A}) == {"a": 0.0}
    node.seconds += 10
    assert node.ages.of(PLACE, {"a": A}) == {"a": 10.0}


def _raising(error: Exception):
    def connect(_path: Path) -> None:
        raise error

    return connect


@pytest.mark.parametrize("seed", range(40))
def test_no_age_exceeds_the_true_age(node: Node, seed: int) -> None:
    """Restarts, kills, two agents together and changing files, in any order."""
    chance = random.Random(seed)
    looks = dict.fromkeys("abc", A)
    truth = dict.fromkeys("abc", 0.0)  # the time since it was needed or changed
    for _ in range(60):
        passed = chance.choice([0.0, 1.0, 50.0])
        node.seconds += passed
        truth = {name: seconds + passed for name, seconds in truth.items()}
        name = chance.choice("abc")
        match chance.choice(["see", "see", "needed", "changed", "save", "restart", "kill", "another agent"]):
            case "needed":
                node.ages.forget(PLACE, [name])
                truth[name] = 0.0
            case "changed":
                looks[name] = FileIdentity(1, chance.randrange(10**9), 3)
                truth[name] = 0.0
            case "save":
                node.ages.save()
            case "restart":
                node.restart()
            case "kill":
                node.restart(is_killed=True)
            case "another agent":
                other = Ledger(node.path)
                Ages(other, lambda: node.seconds).of(PLACE, looks)
                other.close()
            case _:
                ages = node.ages.of(PLACE, looks)
                assert all(ages[name] <= truth[name] for name in "abc"), (ages, truth)
