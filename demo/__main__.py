"""``python -m demo run | images | sbom``: see ``make demo``.

``SF`` is TPC-H's scale factor; ``KEEP=1`` keeps the cluster. With ``KUBECONFIG`` it runs on the user's:
``IMAGE_REGISTRY`` is where that finds the images, ``LOSE_NODE`` the node that may be drained."""

import os
import sys
import time
from contextlib import suppress

from devcluster import cluster as devcluster
from devcluster import kept
from devcluster.errors import DevclusterError

from . import cluster, data, report, story, users_cluster, workload
from .shell import CommandFailed
from .story import say, show
from .waiting import DeadlinePassed

USAGE = """usage: python -m demo run|images|sbom
environment: SF=1, KEEP=0; on a cluster of yours KUBECONFIG, IMAGE_REGISTRY, IMAGE_TAG=0.1.0, LOSE_NODE, DATA_ROOT"""
NODES = 3
SMALL = 1.0
"""At smaller scale factors applications end before optimised code would pay, and a load needs but one executor."""


def main(arguments: list[str]) -> int:
    """Exit code 0: every promise was kept; 1: something failed; 2: wrong usage."""
    if arguments not in (["run"], ["images"], ["sbom"]):
        print(f"{USAGE}; given: {' '.join(arguments) or 'nothing'}", file=sys.stderr)
        return 2
    if arguments == ["images"]:
        cluster.build_images()
        return 0
    if arguments == ["sbom"]:
        print(*cluster.write_sboms(), sep="\n")
        return 0
    if theirs := devcluster.users_kubeconfig():
        return run_on_theirs(theirs)
    return run(scale_factor())


def run_on_theirs(kubeconfig: str) -> int:
    """The demo on the user's cluster; 2 when it may not run there, and nothing was changed."""
    try:
        return users_cluster.run_demo(users_cluster.wishes(kubeconfig), keep=is_to_be_kept())
    except users_cluster.Refused as refusal:
        print(refusal, file=sys.stderr)
        return 2
    except (CommandFailed, DeadlinePassed) as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1


def is_to_be_kept() -> bool:
    """``KEEP`` from the environment."""
    return os.environ.get("KEEP", "0") not in ("", "0")


def scale_factor() -> float:
    """``SF`` from the environment.

    Raises:
        SystemExit: with code 2, when it is not a positive number.
    """
    given = os.environ.get("SF", "1")
    with suppress(ValueError):
        if float(given) > 0:
            return float(given)
    print(f"SF={given} given; allowed: a number above 0, such as 1 or 0.1", file=sys.stderr)
    raise SystemExit(2)


def run(factor: float) -> int:
    """The whole story, from an empty machine to the report."""
    started = time.monotonic()
    keep = is_to_be_kept()
    try:
        measured = tell(factor)
    except (CommandFailed, DeadlinePassed, DevclusterError) as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    finally:
        if keep:
            kept.keep()
        else:
            devcluster.end_run()
    path = report.write(measured)
    missed = report.shortcomings(measured)  # type: ignore[arg-type]
    say(f"done in {time.monotonic() - started:.0f} s; measured: {path.relative_to(path.parents[2])}")
    show(path.read_text())
    for promise in missed:
        print(f"demo failed: not so: {promise}", file=sys.stderr)
    if keep:
        say('the cluster is still there: eval "$(make -s cluster-env)"; make cluster-down')
    return 1 if missed else 0


def tell(factor: float) -> dict[str, object]:
    """Every step; returns the report."""
    say(f"TPC-H at scale factor {factor:g}")
    if is_small := factor < SMALL:
        workload.JAVA_OPTIONS.append(workload.QUICK_JAVA)
    folder = data.generate(factor)
    oracle = data.Oracle(folder)
    say("images, and a Kubernetes of three nodes on this machine")
    cluster.start(NODES)
    story.install({})
    rows = story.load_tables(folder, oracle, executors=1 if is_small else None)
    say("colocation submit: a join on the bucket key, colocated")
    compared = story.compare_join(oracle)
    lost = story.lose_a_node(oracle)
    say("stable again: the join is colocated again, on the nodes that are left")
    healed = story.join(oracle)
    added = story.add_a_node()
    return {"spark_version": compared.first.spark_version, "scale_factor": factor, "rows": rows,
            "colocated": compared.report(), "shuffle": compared.shuffled.report(), "node_lost": lost,
            "healed": healed.report(), "node_added": added}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
