"""``python -m release [check [TAG] | changelog]``: fills build/release, compares versions, or dates the changelog."""

import sys
from datetime import UTC, datetime

from . import artifacts
from .changelog import Changelog
from .errors import NotReleasable
from .versions import REPOSITORY, check, project_version


def main(arguments: list[str]) -> int:
    """Exit code 0: done; 1: something has to be corrected first; 2: wrong usage."""
    try:
        match arguments:
            case []:
                print(*artifacts.collect(), sep="\n")
            case ["check"]:
                print(check())
            case ["check", tag]:
                print(check(tag))
            case ["changelog"]:
                Changelog(REPOSITORY).collect(project_version(), datetime.now(UTC).date())
            case _:
                print(
                    f"usage: python -m release [check [TAG] | changelog]; given: {' '.join(arguments)}", file=sys.stderr
                )
                return 2
    except NotReleasable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
