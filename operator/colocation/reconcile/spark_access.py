"""Decides how Spark finds the nodes of a group: ConfigMaps and labels of Nodes.

ConfigMaps for Spark: one with each group, and one in each other namespace of its tables.

Labels (``names.node_label``) are on exactly the nodes of the group's map, and on those to which its buckets move. What
others change is changed back; a label of a group that is gone goes, whenever it was left behind. A group that is not
decided about in a pass, as its status cannot be understood, keeps its labels.

Safety invariant: an action changes labels with our prefix only, and is one for each node that differs.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ..manifests.config_map import SparkConfigMap
from ..manifests.spark_pods import SparkPlacement
from ..model.group import BucketSequence, ExecutorAffinity
from ..model.names import GROUP_KIND, NODE_LABEL_VALUE, TABLE_KIND
from ..model.snapshot import GroupState
from ..state.held import Held
from ..state.memo import Memo
from ..state.objects import ObservedGroup, ObservedNode, ObservedTable
from .actions import LabelNode, Owner, WriteConfigMap
from .group_status import GroupFacts
from .policy import Policy


class Agents(NamedTuple):
    """Which agents Spark may ask, node -> URL: the ready ones, and the others, which it asks last."""

    ready: dict[str, str]
    others: dict[str, str]


class SparkAccess(NamedTuple):
    """How Spark reads the tables of a group. ``agents``: see ``agents_of``; ``ca_certificate``: PEM of their CA."""

    group: ObservedGroup
    tables: tuple[ObservedTable, ...]
    has_map: bool
    executor_affinity: ExecutorAffinity
    agents: Agents
    ca_certificate: str
    policy: Policy


def config_maps(access: SparkAccess) -> tuple[WriteConfigMap, ...]:
    """The group's ConfigMaps for Spark, as they should be: in its own namespace, and in those of its tables."""
    return tuple(_config_maps(access))


def _config_maps(access: SparkAccess) -> Iterator[WriteConfigMap]:
    identity = access.group.identity
    owners: dict[str, list[Owner]] = {}
    for table in access.tables:
        found = table.identity
        owners.setdefault(found.namespace, []).append(Owner(TABLE_KIND, found.name, found.uid))
    owners.pop(identity.namespace, None)
    own = (identity.namespace, [Owner(GROUP_KIND, identity.name, identity.uid)])
    for namespace, found_owners in (own, *sorted(owners.items())):
        placement = SparkPlacement(
            namespace=namespace,
            group=identity.name,
            group_namespace=None if namespace == identity.namespace else identity.namespace,
            has_map=access.has_map,
            executor_affinity=access.executor_affinity,
            data_root=access.policy.data_root,
            spark_image=access.policy.spark_image,
        )
        content = SparkConfigMap(
            placement=placement,
            agent_urls=access.agents.ready,
            other_agent_urls=access.agents.others,
            ca_certificate=access.ca_certificate,
        )
        yield WriteConfigMap(identity, content, tuple(found_owners))


def agents_of(
    nodes: Collection[str], state: GroupState, urls: Mapping[str, str], ready: Collection[str], missing: Collection[str]
) -> Agents:
    """The agents where Spark may read: on the nodes of the map, or outside of it with whole buckets.

    Those of other nodes are left out: one agent's restart must not rewrite every group's ConfigMap. While none seems to
    be ready, they count as ready: after the API server was away all nodes seem down, and writers need some. Not those
    whose disk is missing: what is written to the folder below the mount point is gone once the disk is back.
    """
    whole = {node for node, states in state.held.items() if "complete" in states.values()}
    known = {node: url for node in sorted(whole.union(nodes)) if (url := urls.get(node))}
    live = {node: url for node, url in known.items() if node in ready}
    live = live or {node: url for node, url in known.items() if node not in missing}
    return Agents(live, {node: url for node, url in known.items() if node not in live})


class Labelled(NamedTuple):
    """Which nodes are to be labelled, and how they are now.

    ``wanted``: label of each group that is decided about -> its nodes. ``undecided``: labels of the other groups.
    """

    nodes: tuple[ObservedNode, ...]
    wanted: Mapping[str, frozenset[str]]
    undecided: frozenset[str]


class _Placed(NamedTuple):
    rows: BucketSequence | None
    target: BucketSequence | None
    held: Held


def group_nodes(facts: GroupFacts, memo: Memo) -> frozenset[str]:
    """The nodes of a group's map after this pass, and those that get, or have just got, a replica for the next one."""
    plan = facts.plan
    placed = memo.of(("nodes", facts.view.key), _Placed(facts.map, plan.target_map, facts.state.held), _nodes_of)
    getting = {plan.moves[index].to for index in plan.start_now} | {job.target for job in facts.view.jobs}
    return placed | getting if getting else placed


def _nodes_of(placed: _Placed) -> frozenset[str]:
    nodes = {node for row in placed.rows or () for node in row}
    for bucket, row in enumerate(placed.target or ()):
        nodes.update(node for node in row if placed.held.get(node, {}).get(bucket) == "complete")
    return frozenset(nodes)


def label_actions(labelled: Labelled) -> tuple[LabelNode, ...]:
    """What differs, node by node."""
    return tuple(_label_actions(labelled))


def _label_actions(labelled: Labelled) -> Iterator[LabelNode]:
    of_nodes: dict[str, set[str]] = {}
    for label, names in labelled.wanted.items():
        for name in names:
            of_nodes.setdefault(name, set()).add(label)
    for node in labelled.nodes:
        due, there = of_nodes.get(node.name, set()), node.group_labels
        if node.deleting:
            continue
        changes: dict[str, str | None] = {
            label: NODE_LABEL_VALUE for label in sorted(due) if there.get(label) != NODE_LABEL_VALUE
        }
        changes |= dict.fromkeys(sorted(there.keys() - due - labelled.undecided))
        if changes:
            yield LabelNode(node.name, node.uid, changes)


def needed_nodes(labelled: Labelled) -> frozenset[str]:
    """The nodes on which groups have, or get, replicas. Of groups that are not decided about, the labels tell."""
    remembered = {node.name for node in labelled.nodes if not node.group_labels.keys().isdisjoint(labelled.undecided)}
    return frozenset(remembered.union(*labelled.wanted.values()))
