"""``python -m tests.simulation``: new seeds each time, or the one that ``SEED`` names; see ``make simulate``."""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from .story import FAULTS, shortest, tell

PROCESSES = 2


def outcome_of(seed: int) -> tuple[int, float, bool]:
    """(seed, simulated hours, whether all went well)."""
    try:
        return seed, tell(seed).loop.elapsed / 3600, True
    except AssertionError:
        return seed, 0.0, False


def replay(seed: int, faults: int) -> int:
    """Tell one seed's story; the exit code."""
    try:
        world = tell(seed, faults)
    except AssertionError as error:
        print(error)
        return 1
    print(*world.timeline, f"SEED={seed}: all is well after {world.loop.elapsed / 3600:.1f} simulated hours", sep="\n")
    return 0


def explore(count: int) -> int:
    """Tell the stories of so many new seeds; the exit code."""
    began_at, hours, failed = time.monotonic(), 0.0, []
    seeds = [int.from_bytes(os.urandom(4)) for _ in range(count)]
    with ProcessPoolExecutor(PROCESSES) as processes:
        for seed, simulated_hours, is_well in processes.map(outcome_of, seeds):
            print(f"SEED={seed} {'ok' if is_well else 'FAILED'}", flush=True)
            hours += simulated_hours
            failed += [] if is_well else [seed]
        for text in processes.map(shortest, failed):
            print(text)
    seconds = time.monotonic() - began_at
    print(f"{count} seeds, {hours:.1f} simulated hours, {count / seconds:.1f} seeds/s, {len(failed)} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    if "SEED" in os.environ:
        sys.exit(replay(int(os.environ["SEED"]), int(os.environ.get("FAULTS", FAULTS))))
    sys.exit(explore(int(os.environ.get("SEEDS", "100"))))
