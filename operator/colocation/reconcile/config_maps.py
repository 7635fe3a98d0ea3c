"""Decides what the ConfigMaps for Spark say: one beside each group, and one in each other namespace of its tables."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ..manifests.config_map import SparkConfigMap
from ..manifests.spark_pods import SparkPlacement
from ..model.group import ExecutorAffinity
from ..model.names import GROUP_KIND, TABLE_KIND
from ..model.snapshot import GroupState
from ..state.objects import ObservedGroup, ObservedTable
from .actions import Owner, WriteConfigMap
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
