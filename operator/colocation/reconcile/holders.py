"""Decides which nodes have a holder pod (`manifests.holder_pod`), and when one may go.

A node has one as long as a group needs it: a map names it, or a bucket moves to it. Evicting the holder asks for the
node: while the pod is Terminating and its node takes no new pods, the node is drained
(``Observation.evicted_nodes``). A holder goes

- when no group has needed its node for `READERS_LEARN_SECONDS`: all replicas are complete elsewhere, and readers know
  where. At once where no group has a map any more: there is nothing to read;
- when its node is gone;
- to be made again: it ended, or was deleted although its node takes pods (no one asks for the node any more).

Safety invariant: while a node that takes no new pods is needed, its holder stays, unless it ended by itself.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from ..state.objects import ObservedHolder, ObservedNode
from ..state.observation import Observation
from .actions import CreateHolder, ReleaseHolder
from .evidence import READERS_LEARN_SECONDS

READERS_LEARN = timedelta(seconds=READERS_LEARN_SECONDS)
REPLACED_AFTER = timedelta(seconds=60)
"""A kubelet that ends each holder at once gets a new one no more often than this."""


class Holders(NamedTuple):
    """What is done about holders. ``unneeded``: nodes that have one and that no group needs.

    ``is_waiting``: something is due by the clock alone.
    """

    actions: tuple[CreateHolder | ReleaseHolder, ...]
    unneeded: frozenset[str]
    is_waiting: bool


def holders_of(observation: Observation, needed: frozenset[str], unneeded_since: Mapping[str, datetime]) -> Holders:
    """``needed``: nodes on which groups have, or get, replicas, once what this pass decides is written.
    ``unneeded_since``: as this operator has seen it.
    """
    unneeded = frozenset(holder.node for holder in observation.holders) - needed
    if unneeded:  # the map without these nodes may yet be refused
        needed |= _mapped(observation)
        unneeded -= needed
    if not needed:
        unneeded_since = dict.fromkeys(unneeded, observation.now - READERS_LEARN)
    actions = tuple(_actions(observation, needed, unneeded_since))
    ended = any(holder.has_ended for holder in observation.holders)
    return Holders(actions, unneeded, bool(unneeded) or ended)


def _actions(
    observation: Observation, needed: frozenset[str], unneeded_since: Mapping[str, datetime]
) -> Iterator[CreateHolder | ReleaseHolder]:
    nodes, held = observation.nodes_by_name, {holder.node for holder in observation.holders}
    for name in sorted(needed - held):
        node = nodes.get(name)
        if node is not None and node.ready and not node.deleting:
            yield CreateHolder(name)
    for holder in observation.holders:
        if holder.node not in needed:
            since = unneeded_since.get(holder.node, observation.now)
            goes = holder.node not in nodes or observation.now - since >= READERS_LEARN
        elif holder.has_ended:
            goes = observation.now - holder.created_at >= REPLACED_AFTER
        else:
            goes = holder.node not in nodes
        if goes or _is_taken_back(holder, nodes.get(holder.node)):
            yield ReleaseHolder(holder.namespace, holder.name, holder.uid, holder.node, only_if_schedulable=not goes)


def _mapped(observation: Observation) -> frozenset[str]:
    maps = (group.status.backends_per_bucket_seq or () for group in observation.groups)
    return frozenset(node for rows in maps for row in rows for node in row)


def _is_taken_back(holder: ObservedHolder, node: ObservedNode | None) -> bool:
    return holder.deleting and node is not None and node.schedulable and not node.deleting
