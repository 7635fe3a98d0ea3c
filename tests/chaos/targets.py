"""What faults are done to, and what heals them."""

from collections.abc import Callable
from random import Random

from devcluster import cluster as devcluster
from devcluster import node as nodes

from . import cluster_view, scene

AGENT = "colocation.agent"
Heal = Callable[[], None]


class CannotNow(Exception):
    """There is nothing at this moment that the fault could be done to."""


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
    """A node that was ended, with all images."""
    if not nodes.is_complete(member):
        devcluster.start_node(member.number)
    scene.tag_images()
