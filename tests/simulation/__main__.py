"""``python -m tests.simulation``: new seeds each time, or the one that ``SEED`` names; see ``make simulate``.

Every other story is one in which disks get sick, too (``DISKS=1``): of the same seed it is another story.
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from .story import FAULTS, shortest, tell

PROCESSES = 2


Story = tuple[int, bool]
"""(seed, whether disks get sick)."""


def outcome_of(story: Story) -> tuple[Story, float, str]:
    """(the story, simulated hours, what went wrong: empty = nothing)."""
    seed, with_disks = story
    try:
        return story, tell(seed, with_disks=with_disks).loop.elapsed / 3600, ""
    except AssertionError as error:
        return story, 0.0, str(error).partition("\n")[0]


def shortest_of(story: Story) -> str:
    """See ``story.shortest``."""
    return shortest(*story)


def replay(seed: int, faults: int, with_disks: bool) -> int:
    """Tell one seed's story; the exit code."""
    try:
        world = tell(seed, faults, with_disks)
    except AssertionError as error:
        print(error)
        return 1
    print(*world.timeline, f"SEED={seed}: all is well after {world.loop.elapsed / 3600:.1f} simulated hours", sep="\n")
    return 0


def explore(count: int) -> int:
    """Tell the stories of so many new seeds; the exit code."""
    began_at, hours, failed = time.monotonic(), 0.0, []
    stories = [(int.from_bytes(os.urandom(4)), number % 2 == 1 or "DISKS" in os.environ) for number in range(count)]
    with ProcessPoolExecutor(PROCESSES) as processes:
        for story, simulated_hours, problem in processes.map(outcome_of, stories):
            print(f"SEED={story[0]}{' DISKS=1' if story[1] else ''} {problem or 'ok'}", flush=True)
            hours += simulated_hours
            failed += [story] if problem else []
        for text in processes.map(shortest_of, failed):
            print(text)
    seconds = time.monotonic() - began_at
    print(f"{count} seeds, {hours:.1f} simulated hours, {count / seconds:.1f} seeds/s, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    if "SEED" in os.environ:
        sys.exit(replay(int(os.environ["SEED"]), int(os.environ.get("FAULTS", FAULTS)), "DISKS" in os.environ))
    sys.exit(explore(int(os.environ.get("SEEDS", "100"))))
