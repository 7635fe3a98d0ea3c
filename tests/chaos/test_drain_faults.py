"""How a node is taken: when it is empty, and not before; each step may fail and be repeated."""

import subprocess
from collections.abc import Iterator
from random import Random

import pytest

from demo.shell import CommandFailed
from devcluster import cluster as devcluster
from devcluster import node as nodes
from devcluster.errors import DevclusterError

from . import drain_faults, scene
from .drain_faults import DrainFaults
from .failing import fails
from .history import History
from .targets import CannotNow, HalfMade

NODE, OTHER = nodes.Node(3), nodes.Node(4)


class Machine:
    """The node as the fault sees it. ``looks``: how often its holder is there yet; ``done``: what was done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: int, fails_once: str = "") -> None:
        self.looks, self.done = looks, list[str]()
        self._fails_once = fails_once
        self.is_up = True
        clock: Iterator[float] = iter(range(0, 10_000, 60))
        monkeypatch.setattr(drain_faults.time, "monotonic", lambda: next(clock))
        monkeypatch.setattr(drain_faults.time, "sleep", lambda _: None)
        monkeypatch.setattr(drain_faults, "any_node", lambda _: NODE)
        monkeypatch.setattr(drain_faults, "has_holder", self._look)
        monkeypatch.setattr(drain_faults, "groups_on", lambda _: [])
        monkeypatch.setattr(drain_faults, "evict", lambda one: self._do(f"evict {one.name}"))
        monkeypatch.setattr(drain_faults, "drain", lambda one: self._do(f"drain {one.name}"))
        monkeypatch.setattr(drain_faults, "give_back", lambda one: self._do(f"give back {one.name}"))
        monkeypatch.setattr(drain_faults, "kubectl", lambda *words, **_: self._do(" ".join(words[:3])))
        monkeypatch.setattr(drain_faults, "start", lambda one: self._do(f"start {one.name}"))
        monkeypatch.setattr(devcluster, "kill_node", self._kill)
        monkeypatch.setattr(devcluster, "add_node", lambda: self._do("add"))
        monkeypatch.setattr(nodes, "is_complete", lambda _: self.is_up)
        monkeypatch.setattr(nodes, "holder_pid", lambda _: 7)
        monkeypatch.setattr(nodes, "known", lambda: [nodes.Node(1), nodes.Node(2), NODE])
        monkeypatch.setattr(scene, "running", lambda: [NODE, OTHER])
        monkeypatch.setattr(scene, "tag_images", list)

    def _look(self, _: nodes.Node) -> bool:
        self.looks -= 1
        return self.looks >= 0

    def _kill(self, number: int) -> None:
        self._do(f"kill node-{number}")
        self.is_up = False

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what == self._fails_once:
            self._fails_once = ""
            raise CommandFailed("no")


def test_a_machine_goes_once_its_holder_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And another one comes under its name."""
    machine, history = Machine(monkeypatch, looks=1), History()
    _, heal = DrainFaults(history).autoscaler_took(Random(1))
    assert machine.done == ["evict node-3"]
    heal()
    assert machine.done[1:] == ["evict node-3"] * 2 + ["kill node-3", "delete node node-3", "start node-3"]
    assert [event.detail for event in history.events] == [{"node": "node-3", "groups": []}]


def test_a_step_that_failed_is_repeated_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is not taken twice."""
    machine = Machine(monkeypatch, looks=0, fails_once="delete node node-3")
    _, heal = DrainFaults(History()).autoscaler_took(Random(1))
    with pytest.raises(CommandFailed):
        heal()
    heal()
    assert machine.done.count("kill node-3") == 1 and machine.done[-1] == "start node-3"


def test_a_drain_that_does_not_end_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be no room while others are drained, too."""
    machine, history = Machine(monkeypatch, looks=10_000), History()
    _, heal = DrainFaults(history).autoscaler_took(Random(1))
    heal()
    assert machine.done[-1] == "give back node-3" and "kill node-3" not in machine.done
    assert history.events == []


def test_a_pool_is_upgraded_node_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a node more before; the second is not asked for before the first was replaced."""
    machine = Machine(monkeypatch, looks=0)
    said, heal = DrainFaults(History()).pool_upgraded(Random(1))
    assert (said, machine.done) == ("node-3, node-4", ["add", "drain node-3"])
    machine.is_up = True
    monkeypatch.setattr(drain_faults, "start", lambda one: setattr(machine, "is_up", True))
    heal()
    assert [one for one in machine.done if one.startswith(("drain", "kill"))] == [
        "drain node-3", "drain node-3", "kill node-3", "drain node-4", "kill node-4",
    ]  # fmt: skip


def test_a_node_that_is_being_replaced_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a second fault, until the first is over."""
    Machine(monkeypatch, looks=0)
    found = DrainFaults(History())
    _, heal = found.autoscaler_took(Random(1))
    with pytest.raises(CannotNow, match="node-3 is being replaced"):
        found.autoscaler_took(Random(1))
    heal()
    found.autoscaler_took(Random(1))


@pytest.mark.parametrize(
    ("said", "is_error"),
    [
        ("error when waiting for pod \"a\" to terminate: context deadline exceeded", False),
        ("global timeout reached: 5s", False),
        ("Unable to connect to the server", True),
    ],
)
def test_kubectl_drain_may_end_before_the_pods_do(said: str, is_error: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another error of it is one of the fault."""
    done = subprocess.CompletedProcess([], 1, "", said)
    monkeypatch.setattr(drain_faults, "run", lambda *_, **__: done)
    if is_error:
        with pytest.raises(CommandFailed):
            drain_faults.drain(NODE)
    else:
        drain_faults.drain(NODE)


def test_one_that_fails_when_it_was_begun_has_a_heal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node may be cordoned already."""
    Machine(monkeypatch, looks=0)
    monkeypatch.setattr(drain_faults, "drain", fails(DevclusterError("no")))
    with pytest.raises(HalfMade, match="half made: no"):
        DrainFaults(History()).pool_upgraded(Random(1))
