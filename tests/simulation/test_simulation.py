"""Seeded faults against the real operator code: it never does harm, and when the faults end, all is well again.

`SEED=17 pytest tests/simulation` replays one seed; `SEEDS=5000` runs that many, `SEEDS=5000-5999` just these; `-n 2`
runs two at a time.
"""

import os
from random import Random
from typing import Any

import pytest

from .operators import SimulatedOperator
from .world import World

DEFAULT_SEEDS = "2000"
STEPS_PER_TICK = 4
FAULTS = 25
STEPS_BETWEEN_FAULTS = 60
MOST_STEPS_TO_HEAL = 40_000


def seeds() -> list[int]:
    """Those that the environment asks for."""
    if "SEED" in os.environ:
        return [int(os.environ["SEED"])]
    first, dash, last = os.environ.get("SEEDS", DEFAULT_SEEDS).partition("-")
    return list(range(int(first), int(last) + 1)) if dash else list(range(int(first)))


@pytest.mark.parametrize("seed", seeds())
def test_no_harm_and_all_well_in_the_end(seed: int) -> None:
    """Crashes, stale reads, lost answers, two operators, lost nodes, damaged files, full disks, loads."""
    random = Random(seed)
    world = World(random)
    for _ in range(random.randint(3, 5)):
        world.add_node()
    for name in ("sales", "stock")[: random.choice([1, 2, 2])]:
        world.add_group(name)
    operators = [SimulatedOperator(world, f"operator-{n}", seed + n) for n in range(random.choice([1, 1, 2]))]
    world.has_two_operators = len(operators) > 1
    log = [f"SEED={seed}"]
    for _ in range(FAULTS):
        run(world, operators, random, random.randint(1, STEPS_BETWEEN_FAULTS))
        log.append(f"{world.clock.now():%H:%M:%S} {world.fault()}")
        if random.random() < 0.2:
            random.choice(operators).restart()
            log.append("restart")
    world.heal()
    for operator in operators:
        operator.restart()
    for _ in range(MOST_STEPS_TO_HEAL // 100):
        run(world, operators, random, 100)
        if is_well(world, operators):
            return
    pytest.fail("\n".join([*log, *explain(world, operators)]))


def run(world: World, operators: list[SimulatedOperator], random: Random, steps: int) -> None:
    """Operators go on in turns, while time passes and news arrive."""
    for _ in range(steps):
        operator = random.choice(operators)
        operator.step()
        world.requests += 1
        operator.watch()
        world.check_writes()
        if random.random() < 1 / STEPS_PER_TICK:
            world.tick()


def is_well(world: World, operators: list[SimulatedOperator]) -> bool:
    """Every group stable, every committed file whole on just the nodes of the map, nothing running, nothing planned."""
    if world.jobs() or not world.groups():
        return False
    world.changes.settle()
    if not all(is_settled(table) for table in world.tables()):
        return False
    for group in world.groups():
        status = group.get("status", {})
        if not status.get("stable"):
            return False
        rows = status["backendsPerBucketSeq"]
        files = world.committed_files((group["metadata"]["namespace"], group["metadata"]["name"]))
        if any(sorted(world.copies(file)) != sorted(rows[file.bucket]) for file in files):
            return False
    plans = [plan for operator in operators if operator.last for plan in operator.last.decision.plan.groups]
    return bool(plans) and not any(plan.moves or plan.drops or plan.next_map for plan in plans)


def is_settled(table: dict[str, Any]) -> bool:
    """Whether the table is accepted, and in the group that it names."""
    status = table.get("status", {})
    return bool(status.get("accepted")) and status.get("group") == table["spec"]["colocateWith"]


def explain(world: World, operators: list[SimulatedOperator]) -> list[str]:
    """What is not well."""
    lines = [f"group {group['metadata']['name']}: {group.get('status')}" for group in world.groups()]
    for operator in operators:
        if operator.last:
            plans = operator.last.decision.plan.groups
            lines += [f"{operator.name} {operator.passes} passes: {plan}" for plan in plans]
            lines += [f"failures: {dict(operator.last.failures)}"]
    lines += [f"{file}: {world.copies(file)}" for file in sorted(world.committed_files(), key=repr)]
    return lines
