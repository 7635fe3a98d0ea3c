"""Decides what the ConfigMaps for Spark say: one beside each group, and one in each other namespace of its tables."""

from collections.abc import Iterator, Mapping

from ..manifests.config_map import SparkConfigMap
from ..manifests.spark_pods import SparkPlacement
from ..model.names import GROUP_KIND, TABLE_KIND
from ..model.snapshot import Node
from ..state.observation import Observation
from .actions import Owner, WriteConfigMap
from .group_status import GroupFacts
from .policy import Policy


def config_maps(
    observation: Observation, facts: GroupFacts, nodes: Mapping[str, Node], policy: Policy
) -> Iterator[WriteConfigMap]:
    """The group's ConfigMaps for Spark, as they should be: in its own namespace, and in those of its tables."""
    identity = facts.group.identity
    owner = Owner(GROUP_KIND, identity.name, identity.uid)
    yield _config_map(observation, facts, nodes, policy, identity.namespace, (owner,))
    owners: dict[str, list[Owner]] = {}
    for table in facts.tables:
        found = table.identity
        owners.setdefault(found.namespace, []).append(Owner(TABLE_KIND, found.name, found.uid))
    owners.pop(identity.namespace, None)
    for namespace, tables in sorted(owners.items()):
        yield _config_map(observation, facts, nodes, policy, namespace, tuple(tables))


def _config_map(
    observation: Observation,
    facts: GroupFacts,
    nodes: Mapping[str, Node],
    policy: Policy,
    namespace: str,
    owners: tuple[Owner, ...],
) -> WriteConfigMap:
    identity = facts.group.identity
    placement = SparkPlacement(
        namespace=namespace,
        group=identity.name,
        group_namespace=None if namespace == identity.namespace else identity.namespace,
        nodes=tuple(sorted({node for row in facts.map or () for node in row})),
        data_root=policy.data_root,
        spark_image=policy.spark_image,
    )
    urls = observation.agent_urls
    ready = {name: url for name, node in nodes.items() if node.ready and (url := urls.get(name))}
    content = SparkConfigMap(placement=placement, agent_urls=ready, ca_certificate=observation.ca_certificate)
    return WriteConfigMap(identity, content, owners)
