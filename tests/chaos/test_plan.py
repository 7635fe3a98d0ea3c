"""A seed's plan is the same each time, keeps to its limits, and shrinks."""

from collections.abc import Callable

import pytest

from .fault_kinds import BY_NAME, KINDS
from .plan import LANES, MOST_FAULTS_AT_ONCE, QUIET_SECONDS, WORK, Plan, Step, make_plan
from .shrink import shrink

SEEDS = range(40)


def test_the_same_seed_makes_the_same_plan() -> None:
    """And another seed another one."""
    assert make_plan(7, 5) == make_plan(7, 5) != make_plan(8, 5)


def test_fewer_faults_leave_the_work_as_it_is() -> None:
    """What is replayed with a part of the faults is the same story."""
    plan = make_plan(7, 5)
    assert make_plan(7, 5, ["none"]).work == make_plan(7, 5, ["node-killed"]).work == plan.work
    assert make_plan(7, 5, ["none"]).faults == ()
    assert {one.name for one in make_plan(7, 5, ["node-killed"]).faults} == {"node-killed"}


@pytest.mark.parametrize("seed", SEEDS)
def test_faults_keep_to_their_limits(seed: int) -> None:
    """Not too many at once, one of those that exclude each other, none at the beginning, all over at the end."""
    plan = make_plan(seed, 10)
    assert plan.faults
    for one in plan.faults:
        in_force = [other for other in plan.faults if other.at_seconds <= one.at_seconds < _end(other)]
        words = [BY_NAME[other.name].one_of for other in in_force if BY_NAME[other.name].one_of]
        assert len(in_force) <= MOST_FAULTS_AT_ONCE and len(set(words)) == len(words)
        assert one.at_seconds >= QUIET_SECONDS and _end(one) < 600


def test_everything_comes_up() -> None:
    """Over some seeds all kinds of work in all lanes, and all kinds of faults."""
    plans = [make_plan(seed, 30) for seed in SEEDS]
    assert {step.name for plan in plans for step in plan.work} == set(WORK)
    assert {step.lane for plan in plans for step in plan.work} == set(range(LANES))
    assert {step.name for plan in plans for step in plan.faults} == {kind.name for kind in KINDS}


def test_an_unknown_fault_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(ValueError, match="'node-klled'; allowed: none, node-killed, "):
        make_plan(1, 1, ["node-klled"])


@pytest.mark.parametrize(
    "culprits", [pytest.param({3}, id="one"), pytest.param({2, 5}, id="two together"), pytest.param(set(), id="none")]
)
def test_a_failure_shrinks_to_its_faults(culprits: set[int]) -> None:
    """The faults without which the run does not fail, and the command that runs them again."""
    smallest = shrink(_plan(8), _needs(culprits), most_runs=100)
    assert {fault.number for fault in smallest.faults} == culprits
    assert smallest.command.endswith(f"ONLY={','.join(map(str, sorted(culprits))) or 'none'}")


def test_shrinking_is_bounded() -> None:
    """No more runs than allowed; what is left still fails."""
    runs: list[Plan] = []

    def fails(plan: Plan) -> bool:
        runs.append(plan)
        return _needs({2, 5, 7})(plan)

    smallest = shrink(_plan(8), fails, most_runs=4)
    assert len(runs) <= 4 and _needs({2, 5, 7})(smallest)


def test_a_plan_that_does_not_fail_again_is_not_shrunk() -> None:
    """It fails only sometimes: fewer faults would prove nothing."""
    with pytest.raises(ValueError, match="make chaos SEED=1 MINUTES=5 did not fail this time"):
        shrink(_plan(8), lambda plan: plan.is_shrunk)


def _end(step: Step) -> float:
    return step.at_seconds + step.hold_seconds


def _plan(faults: int) -> Plan:
    steps = tuple(Step(number, 30.0 * number, -1, "agent-killed", 0.5) for number in range(1, faults + 1))
    return Plan(1, 5, (), steps)


def _needs(culprits: set[int]) -> Callable[[Plan], bool]:
    return lambda plan: culprits <= {fault.number for fault in plan.faults}
