"""The checkout that keeps the cluster: `up` of another checkout ends it only if REPLACE or CI is set."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from devcluster import paths
from devcluster.errors import DevclusterError
from devcluster.progress import say

CHECKOUT = paths.PACKAGE.parent
ALLOWED_BY = ("REPLACE", "CI")
"""Environment variables that allow it; continuous integration has a machine for itself."""


def keep() -> None:
    """From now on the cluster is this checkout's."""
    if paths.STATE.exists() and not is_anothers():  # a run may end before there is anything of its own to keep
        paths.KEPT.write_text(str(CHECKOUT))


def keeper() -> Path | None:
    """The checkout that keeps the cluster; None = no checkout does."""
    return Path(paths.KEPT.read_text()) if paths.KEPT.exists() else None


def is_anothers() -> bool:
    """Whether another checkout keeps the cluster."""
    return keeper() not in (None, CHECKOUT)


def require_replaceable(is_running: Callable[[], bool], environment: Mapping[str, str] = os.environ) -> None:
    """May this checkout end the cluster that is there?

    Raises:
        DevclusterError: another checkout keeps it, it runs, and no variable allows to replace it.
    """
    if not is_anothers() or not is_running():
        return
    theirs = keeper()
    if any(environment.get(name, "0") not in ("", "0", "false") for name in ALLOWED_BY):
        say(f"the cluster that {theirs} keeps is replaced")
        return
    raise DevclusterError(
        f"the checkout {theirs} keeps a cluster on this machine, and there is room for one. "
        "End it there with `make cluster-down`, or replace it with REPLACE=1"
    )
