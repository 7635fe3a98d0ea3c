"""``python -m tests.mutation FILE… --tests FOLDER…``: changes of these files' functions that these tests do not notice.

Each expression and statement is changed in turn, and the tests that run its line are run until one fails. What
survives is a missing test, a condition that nothing needs, or, rarely, a change that makes no difference.
"""

import argparse
import sys
from pathlib import Path

import pytest

from .judge import Judge


def main(arguments: list[str]) -> int:
    """Print the survivors; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, help="Python files")
    parser.add_argument("--tests", nargs="+", required=True, help="what pytest runs: files, folders or tests")
    parser.add_argument("--sample", type=int, default=0, help="so many mutants at random; 0 = all (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--seconds", type=float, default=10, help="of tests for a mutant (default: 10)")
    given = parser.parse_args(arguments)
    judge = Judge(given.paths, given.sample, given.seed, given.seconds)
    options = ["-q", "-p", "no:cacheprovider", "-o", "timeout=0", "--capture=no", "-m", "not e2e and not deep"]
    return int(pytest.main([*options, *given.tests], plugins=[judge]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
