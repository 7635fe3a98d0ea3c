"""``python -m tests.mutation.java PACKAGE… --tests FILE…``: changes of the jar that no test notices.

Each condition, answer and call for its effect is changed in turn, in the JVMs of a running Spark cluster. JUnit's tests
that run its line judge it first, then Spark's, until one fails. What a test runs is found out before, and kept in
``build/mutation`` for the jar and the version of Spark.
"""

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyspark
import pytest

from .agents import Agents, JavaMutant
from .java_judge import JavaJudge
from .junit import CHECKOUT, JUnit

JAR = CHECKOUT / "operator" / "colocation" / "spark" / "jars" / "colocation-spark.jar"
HANGS_SECONDS = 240
OPTIONS = ("-q", "-p", "no:cacheprovider", "--capture=no", "-m", "not deep", "-o", "timeout=120")


def main(arguments: list[str]) -> int:
    """Print the survivors; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.java", description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="+", help="of dev.colocation.spark: write, catalog, plan.SplitScan, …")
    parser.add_argument("--tests", nargs="+", required=True, help="Spark's tests: files or folders")
    parser.add_argument("--sample", type=int, default=50, help="so many mutants at random; 0 = all (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--seconds", type=float, default=120, help="of tests for a mutant (default: 120)")
    given = parser.parse_args(arguments)
    digest = hashlib.sha256(JAR.read_bytes()).hexdigest()[:12]
    kept = CHECKOUT / "build" / "mutation" / f"{digest}-{pyspark.__version__}"
    kept.mkdir(parents=True, exist_ok=True)
    counts = Counter[str]()
    with tempfile.TemporaryDirectory(dir=kept) as folder:
        agents = Agents(Path(folder))
        agents.build()
        prefixes = tuple(f"dev/colocation/spark/{package.replace('.', '/')}" for package in given.packages)
        found = [mutant for mutant in agents.mutants_of(JAR) if mutant.place.startswith(prefixes)]
        if given.sample:
            found = random.Random(given.seed).sample(found, min(given.sample, len(found)))
        left = list(_survivors_of_junit(found, agents, kept))
        print(f"{len(found)} mutants, of which JUnit's tests kill {len(found) - len(left)}", flush=True)
        for mutant, verdict in _judged_by_spark(left, JavaJudge(agents, kept, given.seconds), given.tests):
            counts[verdict.partition(" ")[0]] += 1
            if not verdict.startswith("killed"):
                print(f"{mutant}: {verdict}", flush=True)
    print("Spark's tests: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 0


def _survivors_of_junit(mutants: Sequence[JavaMutant], agents: Agents, kept: Path) -> Iterator[JavaMutant]:
    junit = JUnit(agents)
    runs = junit.runs(junit.classes(), kept / "junit.json")
    return (mutant for mutant in mutants if not junit.kills(mutant, runs))


def _judged_by_spark(
    mutants: Sequence[JavaMutant], judge: JavaJudge, tests: Sequence[str]
) -> Iterator[tuple[JavaMutant, str]]:
    """Each mutant's verdict. A process that a mutant makes hang, or whose cluster it breaks, gives way to a new one."""
    left = list(mutants)
    os.environ["JDK_JAVA_OPTIONS"] = judge.agents.java_options
    while left:
        judge.begin(left)
        hangs = not _ends(lambda: int(pytest.main([*OPTIONS, *tests], plugins=[judge])), judge.verdicts)
        verdicts = judge.verdicts.read_text().splitlines()
        if hangs:
            verdicts.append("killed: the tests hang")
        if not verdicts:
            raise SystemExit("the tests did not run")
        yield from zip(left, verdicts, strict=False)
        left = left[len(verdicts) :]


def _ends(work: Callable[[], int], file: Path) -> bool:
    """Whether work in a process of its own ends, and writes to the file until then; it is killed if not."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.setpgid(0, 0)
            code = work()
        finally:
            os._exit(code)
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        time.sleep(1)
        if time.time() - file.stat().st_mtime > HANGS_SECONDS:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
