"""``python -m release`` fills build/release; ``python -m release check [TAG]`` says whether versions agree."""

import sys

from . import artifacts
from .versions import NotReleasable, check


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
            case _:
                print(f"usage: python -m release [check [TAG]]; given: {' '.join(arguments)}", file=sys.stderr)
                return 2
    except NotReleasable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
