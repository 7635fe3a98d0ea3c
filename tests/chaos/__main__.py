"""``python -m tests.chaos``: see ``make chaos``. Exit code 0: nothing lost, every answer right; 1: not so; 2: wrong
usage.

``SEED`` (default: a new one), ``MINUTES`` (5), ``FAULTS`` (all; ``none``; or some, with commas), ``ONLY`` (numbers of
the plan's faults), ``QUERIES`` (at least so many), ``SHRINK`` (a seed that failed: fewer faults that still make it
fail), ``KEEP=1`` keeps the cluster, and ``REUSE=1`` takes the one that was kept.
``judge FILE`` judges a history that is there, ``plan`` prints what a seed does.
"""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from devcluster import cluster as devcluster
from devcluster import kept

from . import report, scene
from .checker import judge
from .history import read
from .plan import Plan, make_plan
from .runner import run_plan
from .shrink import shrink

MINUTES = 5.0


def plan_of_environment() -> Plan:
    """What the environment asks for."""
    given = os.environ.get("SHRINK") or os.environ.get("SEED")
    seed = int(given) if given else int.from_bytes(os.urandom(4))
    names = [name for name in os.environ.get("FAULTS", "").split(",") if name]
    plan = make_plan(seed, float(os.environ.get("MINUTES", MINUTES)), names)
    plan = replace(plan, queries=int(os.environ.get("QUERIES", "0")))
    if "ONLY" not in os.environ:
        return plan
    return plan.only([int(number) for number in os.environ["ONLY"].split(",") if number not in ("", "none")])


def run_once(plan: Plan) -> bool:
    """Whether the plan passes, on a fresh cluster."""
    try:
        scene.start_cluster(reuse=bool(os.environ.get("REUSE")))
        ran = run_plan(plan)
    finally:
        if scene.keep_cluster():
            kept.keep()
        else:
            devcluster.end_run()
    print(ran.problem or f"SEED={plan.seed}: nothing lost, {ran.verdict.queries} answers right", flush=True)
    return not ran.problem


def main(arguments: list[str]) -> int:
    """One command; the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that everything is healed and ended
    if arguments[:1] == ["judge"]:
        verdict = judge(read(Path(arguments[1])), is_whole="--part" not in arguments)
        print(*verdict.violations, sep="\n")
        return 1 if verdict.violations else 0
    try:
        plan = plan_of_environment()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments == ["plan"]:
        print(plan.command, *sorted((*plan.work, *plan.faults), key=lambda step: step.at_seconds), sep="\n")
        return 0
    if theirs := devcluster.users_kubeconfig():
        print(f"KUBECONFIG names a cluster of yours ({theirs}); chaos breaks nodes and needs its own", file=sys.stderr)
        return 2
    if "SHRINK" in os.environ:
        try:
            smallest = shrink(plan, lambda one: not run_once(one))
        except ValueError as error:
            print(error)
            return 1
        print(f"the smallest that was found to fail: {smallest.command}", *smallest.faults, sep="\n")
        return 0
    passed = run_once(plan)
    print(f"report: {report.FOLDER / 'report.json'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
