"""``python -m tests.simulation``: new seeds each time, or the one that ``SEED`` names; see ``make simulate``.

In every other story disks get sick, too (``DISKS=1``), in every third etcd is restored (``RESTORES=1``): of the same
seed each is another story.
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from .story import FAULTS, profile, shortest, tell

PROCESSES = 2


Story = tuple[int, bool, bool]
"""(seed, whether disks get sick, whether etcd is restored)."""


def outcome_of(story: Story) -> tuple[Story, float, str]:
    """(the story, simulated hours, what went wrong: empty = nothing)."""
    seed, with_disks, with_restores = story
    try:
        return story, tell(seed, FAULTS, with_disks, with_restores).loop.elapsed / 3600, ""
    except AssertionError as error:
        return story, 0.0, str(error).partition("\n")[0]


def asked_for() -> tuple[bool, bool]:
    """What stories are to have in any case: (sick disks, restores of etcd)."""
    return "DISKS" in os.environ, "RESTORES" in os.environ


def shortest_of(story: Story) -> str:
    """See ``story.shortest``."""
    return shortest(*story)


def replay(seed: int, faults: int, with_disks: bool, with_restores: bool) -> int:
    """Tell one seed's story; the exit code."""
    try:
        world = tell(seed, faults, with_disks, with_restores)
    except AssertionError as error:
        print(error)
        return 1
    print(*world.timeline, f"SEED={seed}: all is well after {world.loop.elapsed / 3600:.1f} simulated hours", sep="\n")
    return 0


def explore(count: int) -> int:
    """Tell the stories of so many new seeds; the exit code."""
    began_at, hours, failed = time.monotonic(), 0.0, []
    disks, restores = asked_for()
    seeds = [int.from_bytes(os.urandom(4)) for _ in range(count)]
    stories = [(seed, disks or number % 2 == 1, restores or number % 3 == 2) for number, seed in enumerate(seeds)]
    with ProcessPoolExecutor(PROCESSES) as processes:
        for story, simulated_hours, problem in processes.map(outcome_of, stories):
            print(f"SEED={story[0]}{profile(*story[1:])} {problem or 'ok'}", flush=True)
            hours += simulated_hours
            failed += [story] if problem else []
        for text in processes.map(shortest_of, failed):
            print(text)
    seconds = time.monotonic() - began_at
    print(f"{count} seeds, {hours:.1f} simulated hours, {count / seconds:.1f} seeds/s, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    if "SEED" in os.environ:
        sys.exit(replay(int(os.environ["SEED"]), int(os.environ.get("FAULTS", FAULTS)), *asked_for()))
    sys.exit(explore(int(os.environ.get("SEEDS", "100"))))
