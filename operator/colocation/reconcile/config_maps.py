"""Decides what the ConfigMaps for Spark say: one beside each group, and one in each other namespace of its tables."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ..manifests.config_map import SparkConfigMap
from ..manifests.spark_pods import SparkPlacement
from ..model.names import GROUP_KIND, TABLE_KIND
from .actions import Owner, WriteConfigMap
from .group_status import GroupFacts
from .policy import Policy


class Agents(NamedTuple):
    """Whom Spark may ask, node -> URL: the ready agents, and the others, which it asks last."""

    ready: dict[str, str]
    others: dict[str, str]


def config_maps(ca_certificate: str, facts: GroupFacts, agents: Agents, policy: Policy) -> Iterator[WriteConfigMap]:
    """The group's ConfigMaps for Spark, as they should be: in its own namespace, and in those of its tables.

    ``agents``: see ``agents_of``.
    """
    identity = facts.group.identity
    owners: dict[str, list[Owner]] = {}
    for table in facts.tables:
        found = table.identity
        owners.setdefault(found.namespace, []).append(Owner(TABLE_KIND, found.name, found.uid))
    owners.pop(identity.namespace, None)
    own = (identity.namespace, [Owner(GROUP_KIND, identity.name, identity.uid)])
    for namespace, found_owners in (own, *sorted(owners.items())):
        placement = SparkPlacement(
            namespace=namespace,
            group=identity.name,
            group_namespace=None if namespace == identity.namespace else identity.namespace,
            has_map=facts.map is not None,
            executor_affinity=facts.spec.executor_affinity,
            data_root=policy.data_root,
            spark_image=policy.spark_image,
        )
        content = SparkConfigMap(
            placement=placement,
            agent_urls=agents.ready,
            other_agent_urls=agents.others,
            ca_certificate=ca_certificate,
        )
        yield WriteConfigMap(identity, content, tuple(found_owners))


def agents_of(
    facts: GroupFacts, urls: Mapping[str, str], ready: Collection[str], disk_missing: Collection[str]
) -> Agents:
    """The agents where Spark may read: on the map, or outside of it with whole buckets.

    Those of other nodes are left out: one agent's restart must not rewrite every group's ConfigMap. While none seems to
    be ready, they count as ready: after the API server was away all nodes seem down, and writers need some. Not those
    whose disk is missing: what is written to the folder below the mount point is gone once the disk is back.
    """
    whole = {node for node, states in facts.state.held.items() if "complete" in states.values()}
    nodes = sorted(_placed(facts) | whole)
    known = {node: url for node in nodes if (url := urls.get(node))}
    live = {node: url for node, url in known.items() if node in ready}
    live = live or {node: url for node, url in known.items() if node not in disk_missing}
    return Agents(live, {node: url for node, url in known.items() if node not in live})


def _placed(facts: GroupFacts) -> set[str]:
    return {node for row in facts.map or () for node in row}
