"""What faults are done to, and what heals them."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from demo.shell import CommandFailed
from devcluster import cluster as devcluster
from devcluster import node as nodes
from devcluster.errors import DevclusterError

from . import cluster_view, scene

AGENT = "colocation.agent"
Heal = Callable[[], None]
FAILURES = (CommandFailed, DevclusterError, cluster_view.ApiAway, subprocess.SubprocessError, OSError)
"""As what may fail does while other faults are in force. OSError: a disk is full, or fails."""


class CannotNow(Exception):
    """There is nothing at this moment that the fault could be done to. Nothing was done."""


class HalfMade(Exception):
    """A fault was begun, and no one knows how much of it there is. ``heal`` ends it all the same."""

    def __init__(self, target: str, why: Exception, heal: Heal) -> None:
        super().__init__(f"{target}, half made: {str(why)[:500]}")
        self.heal = heal


@contextmanager
def healed_by(heal: Heal, target: str) -> Iterator[None]:
    """What begins a fault: it is healed also when it fails.

    Raises:
        HalfMade: it failed with one of ``FAILURES``.
    """
    try:
        yield
    except FAILURES as error:
        raise HalfMade(target, error, heal) from error


def any_node(random: Random) -> nodes.Node:
    """One that is up, and not the last but the replicas'.

    Raises:
        CannotNow: too few are.
    """
    members = [member for member in scene.running() if member.name in cluster_view.reachable()]
    if len(members) < scene.REPLICAS + 1:
        raise CannotNow("too few nodes are up")
    return random.choice(members)


def start(member: nodes.Node) -> None:
    """A node that was ended: all its programs run, it is registered and Ready, with all images.

    A kubelet that runs does not register again when its Node object is gone: it is ended first.

    Raises:
        DevclusterError: it is not Ready in time. The next call looks again.
        ApiAway: the API server did not say which nodes there are.
    """
    if nodes.is_complete(member) and not is_registered(member):
        devcluster.kill_node(member.number)
    if not nodes.is_complete(member):
        devcluster.start_node(member.number)
    nodes.wait_ready(member)
    scene.tag_images()


def is_registered(member: nodes.Node) -> bool:
    """Whether the node has its object. One that just starts has it before we look: the lock is held until it is Ready.

    Raises:
        ApiAway: the API server did not say.
    """
    with devcluster.lock():
        return member.name in {item["metadata"]["name"] for item in cluster_view.get("nodes")}
