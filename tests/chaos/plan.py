"""What a seed does, and when: work in lanes side by side, and faults. The same seed makes the same plan.

A step names no table and no node: what is there then depends on the run. It carries a *die*, a number from 0 to 1, by
which its actor chooses. Work does not depend on the faults, so that a plan with fewer of them is the same story.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random

from .fault_kinds import KINDS, FaultKind

LANES = 2
WORK: dict[str, float] = {
    "append": 5, "overwrite": 1.5, "overwrite-partitions": 2, "drop-partitions": 1, "merge": 2.5, "update": 1.5,
    "delete": 1, "compact": 1.5, "drop": 1,
    "recover": 2, "create": 1, "move": 1.5, "replicas": 1, "columns": 0.7, "drain": 0.7, "undrain": 1.5, "submit": 0.3,
    "burst": 0.5,
}  # fmt: skip
"""What users do -> how often, compared with the rest."""
SECONDS_BETWEEN_STEPS = (2.0, 15.0)
SECONDS_BETWEEN_FAULTS = (15.0, 50.0)
QUIET_SECONDS = 20.0
"""At the beginning no fault comes: tables get their first rows."""
MOST_FAULTS_AT_ONCE = 3


@dataclass(frozen=True)
class Step:
    """``lane`` -1: a fault, which is healed ``hold_seconds`` after it was made."""

    number: int
    at_seconds: float
    lane: int
    name: str
    die: float
    hold_seconds: float = 0.0

    def __str__(self) -> str:
        hold = f" for {self.hold_seconds:.0f} s" if self.hold_seconds else ""
        return f"{self.at_seconds:6.1f} s  {'fault' if self.lane < 0 else 'work'} {self.number}: {self.name}{hold}"


@dataclass(frozen=True)
class Plan:
    """All that a seed does. Steps are in the order of time. ``kinds``: faults that were asked for; empty = all.
    ``queries``: the session answers at least so many before the run ends.
    """

    seed: int
    minutes: float
    work: tuple[Step, ...]
    faults: tuple[Step, ...]
    kinds: tuple[str, ...] = ()
    queries: int = 0
    is_shrunk: bool = False

    @property
    def command(self) -> str:
        """What runs it again."""
        only = [f"ONLY={','.join(self.numbers) or 'none'}"] if self.is_shrunk else []
        return " ".join([*self._words("SEED"), *only])

    @property
    def shrinking(self) -> str:
        """What looks for fewer faults that still make it fail."""
        return " ".join(self._words("SHRINK"))

    @property
    def numbers(self) -> list[str]:
        """Of its faults."""
        return [str(fault.number) for fault in self.faults]

    def _words(self, of_seed: str) -> list[str]:
        words = [f"make chaos {of_seed}={self.seed} MINUTES={self.minutes:g}"]
        words += [f"FAULTS={','.join(self.kinds)}"] if self.kinds else []
        return words + ([f"QUERIES={self.queries}"] if self.queries else [])

    def only(self, numbers: Collection[int]) -> "Plan":
        """The same work with these faults only."""
        return replace(self, faults=tuple(one for one in self.faults if one.number in numbers), is_shrunk=True)


def make_plan(seed: int, minutes: float, kinds: Collection[str] = ()) -> Plan:
    """The plan of a seed. ``kinds``: faults to choose from, ``none`` for no fault; empty = all.

    Raises:
        ValueError: an unknown fault; the message lists those that there are.
    """
    names = [kind.name for kind in KINDS]
    if unknown := sorted(set(kinds) - {*names, "none"}):
        raise ValueError(f"fault {unknown[0]!r}; allowed: none, {', '.join(names)}")
    chosen = [kind for kind in KINDS if not kinds or kind.name in kinds]
    work = tuple(sorted((one for lane in range(LANES) for one in _work(seed, minutes, lane)), key=_when))
    faults = _faults(Random(f"faults {seed}"), minutes, chosen) if chosen else ()
    return Plan(seed, minutes, work, faults, tuple(kinds))


def _when(step: Step) -> tuple[float, int]:
    return step.at_seconds, step.number


def _work(seed: int, minutes: float, lane: int) -> list[Step]:
    random, at_seconds, steps = Random(f"work {seed} {lane}"), 0.0, list[Step]()
    while at_seconds < minutes * 60:
        [name] = random.choices([*WORK], [*WORK.values()])
        steps.append(Step(lane * 10_000 + len(steps) + 1, round(at_seconds, 1), lane, name, random.random()))
        at_seconds += random.uniform(*SECONDS_BETWEEN_STEPS)
    return steps


def _faults(random: Random, minutes: float, kinds: list[FaultKind]) -> tuple[Step, ...]:
    """Up to ``MOST_FAULTS_AT_ONCE`` in force at a time. They end before the run does."""
    at_seconds, end_seconds = QUIET_SECONDS + random.uniform(0, 10), minutes * 60
    steps: list[Step] = []
    in_force: dict[Step, FaultKind] = {}
    while at_seconds < end_seconds:
        in_force = {step: kind for step, kind in in_force.items() if step.at_seconds + step.hold_seconds > at_seconds}
        taken = {kind.one_of for kind in in_force.values() if kind.one_of}
        free = [kind for kind in kinds if kind.one_of not in taken]
        if free and len(in_force) < MOST_FAULTS_AT_ONCE:
            [kind] = random.choices(free, [one.share for one in free])
            hold = random.uniform(*kind.hold_seconds)
            step = Step(len(steps) + 1, round(at_seconds, 1), -1, kind.name, random.random(), round(hold, 1))
            if step.at_seconds + step.hold_seconds < end_seconds:
                steps.append(step)
                in_force[step] = kind
        at_seconds += random.uniform(*SECONDS_BETWEEN_FAULTS)
    return tuple(steps)
