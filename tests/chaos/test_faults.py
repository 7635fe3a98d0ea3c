"""What a fault does to its target, where that follows from the die; that each is healed, whatever fails."""

import subprocess
import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from demo.shell import CommandFailed
from devcluster import node as nodes
from devcluster.errors import DevclusterError

from . import cluster_view, faults, scene
from .failing import do_nothing, fails
from .fault_kinds import BY_NAME
from .faults import LEAST_STEP_SECONDS, MOST_AHEAD_SECONDS, MOST_BEHIND_SECONDS, Faults, clock_step
from .history import FAIL, INVOKE, OK, History
from .plan import Step
from .targets import CannotNow, HalfMade

NODE = nodes.Node(3)
DAMAGE = DevclusterError("no")


@pytest.mark.parametrize("name", BY_NAME)
def test_each_kind_of_fault_can_be_made(name: str) -> None:
    """None is only a line of the table."""
    assert callable(Faults(None, None)._action(name))  # type: ignore[arg-type]


def test_a_clock_is_stepped_ahead_and_behind_within_its_limits() -> None:
    """No further behind than certificates of an old CA allow."""
    steps = [clock_step(Random(seed), 86400.0) for seed in range(200)]
    assert all(abs(step) >= LEAST_STEP_SECONDS for step in steps)
    assert -MOST_BEHIND_SECONDS <= min(steps) < -MOST_AHEAD_SECONDS < MOST_AHEAD_SECONDS / 2 < max(steps)
    assert max(steps) <= MOST_AHEAD_SECONDS


def test_a_clock_goes_to_no_time_before_the_agents_authority() -> None:
    """It is a fresh one in a fresh cluster; a younger one than the least step leaves only the way ahead."""
    assert min(clock_step(Random(seed), 150.0) for seed in range(200)) >= -150
    ahead = next(seed for seed in range(200) if clock_step(Random(seed), 150.0) > 0)
    behind = next(seed for seed in range(200) if clock_step(Random(seed), 150.0) < 0)
    assert clock_step(Random(ahead), 30.0) > 0
    with pytest.raises(CannotNow, match="CA is 30 s old"):
        clock_step(Random(behind), 30.0)


def made(fault: Callable[[Random], Any], monkeypatch: pytest.MonkeyPatch, hold_seconds: float = -1.0) -> Faults:
    """A fault of plan number 7 was tried to be made. ``hold_seconds``: so long one heal tries."""
    monkeypatch.setattr(faults, "HEAL_SECONDS", hold_seconds)
    monkeypatch.setattr(faults, "HEAL_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(Faults, "_action", lambda _self, _name: fault)
    found = Faults(History(), None)  # type: ignore[arg-type]
    found.make(Step(7, 0.0, -1, "node-killed", 0.5))
    return found


def outcomes(found: Faults) -> list[tuple[str, str, dict[str, Any]]]:
    """Of a history: what came of what was begun."""
    return [(e.kind, e.name, dict(e.detail)) for e in found.history.events if e.kind != INVOKE]


@pytest.mark.parametrize(
    ("error", "kind", "detail"),
    [
        (CannotNow("no pod"), FAIL, {"why": "no pod", "untouched": True}),
        (DevclusterError("died"), FAIL, {"why": "died"}),
        (cluster_view.ApiAway("away"), FAIL, {"why": "away"}),
        (HalfMade("node-3", OSError("full"), do_nothing), OK, {"what": "node-3, half made: full", "holds": True}),
    ],
)
def test_it_is_said_what_came_of_a_fault(
    error: Exception, kind: str, detail: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is in force, and whether anything was done."""
    assert outcomes(made(fails(error), monkeypatch)) == [(kind, "node-killed", detail)]


def test_fault_that_is_half_made_is_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what belongs to as much of it as there may be."""
    healed: list[str] = []
    found = made(fails(HalfMade("node-3", OSError("full"), lambda: healed.append("node-3"))), monkeypatch)
    found.heal(7)
    assert healed == ["node-3"]


def test_fault_stays_in_force_until_it_is_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A heal that gives up leaves it to the next one; when it is healed there is nothing more to do."""
    heal = fails(DAMAGE)
    found = made(lambda _: ("node-3", heal), monkeypatch)
    assert [found.heal(7) for _ in range(3)] == [False, True, True]
    fault = {"fault": 1, "name": "node-killed"}
    assert outcomes(found)[1:] == [(FAIL, "heal", {**fault, "why": "no"}), (OK, "heal", fault)]


@pytest.mark.parametrize(
    "error", [cluster_view.ApiAway("away"), subprocess.TimeoutExpired("kubectl", 20), CommandFailed("no"), OSError()]
)
def test_heal_tries_again_whatever_failed(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that is away is back later."""
    heal = fails(error)
    found = made(lambda _: ("node-3", heal), monkeypatch, hold_seconds=60.0)
    found.heal(7)
    assert [kind for kind, _, _ in outcomes(found)] == [OK, OK]


def test_two_threads_heal_a_fault_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits for the first."""
    began, may_end, calls = threading.Event(), threading.Event(), list[str]()

    def heal() -> None:
        calls.append("heal")
        began.set()
        may_end.wait(10)

    found = made(lambda _: ("node-3", heal), monkeypatch)
    threads = [threading.Thread(target=found.heal, args=(7,)) for _ in range(2)]
    threads[0].start()
    began.wait(10)
    threads[1].start()
    may_end.set()
    for thread in threads:
        thread.join(10)
    assert calls == ["heal"]


def test_everything_is_healed_though_something_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also nodes that no fault speaks of; the error names all that failed."""
    done: list[str] = []
    found = made(lambda _: ("node-3", fails(DAMAGE, DAMAGE)), monkeypatch)
    monkeypatch.setattr(found.control_plane, "start", fails(cluster_view.ApiAway("away")))
    monkeypatch.setattr(nodes, "known", lambda: [nodes.Node(1), NODE])
    monkeypatch.setattr(nodes, "is_complete", lambda member: member == NODE)
    monkeypatch.setattr(found, "_reconnect", fails(DAMAGE))
    monkeypatch.setattr(faults, "start", lambda member: done.append(member.name))
    monkeypatch.setattr(scene, "tag_images", lambda: done.append("images"))
    with pytest.raises(DevclusterError, match=r"control plane: away; link of node-1: no; node-killed: no$"):
        found.heal_all()
    assert done == ["node-1", "images"]


@pytest.mark.parametrize(
    ("name", "module", "function"),
    [
        ("node-killed", faults.devcluster, "kill_node"),
        ("partition", faults.devcluster, "set_partitioned"),
        ("partition-one-way", faults.network, "set_one_way"),
        ("slow-link", faults.network, "shape_link"),
        ("clone-killed", faults, "kubectl"),
        ("node-added", faults.devcluster, "add_node"),
    ],
)
def test_fault_that_fails_when_it_was_begun_has_a_heal(
    name: str, module: Any, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No one knows how much of it there is."""
    monkeypatch.setattr(faults, "any_node", lambda _: NODE)
    monkeypatch.setattr(nodes, "require_running", lambda _: 33)
    monkeypatch.setattr(nodes, "known", list)
    monkeypatch.setattr(module, function, fails(DAMAGE))
    with pytest.raises(HalfMade, match="half made: no"):
        Faults(None, None)._action(name)(Random(1))  # type: ignore[arg-type]


