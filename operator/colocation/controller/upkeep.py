"""Decides what is deleted, and when: only what is not wanted any more, and only once that is safe."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from ..kube.actions import CollectGarbage, DeleteGroup, DropBucket, RecycleTable, RemoveClone, WriteConfigMap
from ..kube.clones import group_uids, is_current
from ..kube.observation import Observation
from ..kube.parse import parse_time
from ..manifests.config_map import SparkConfigMap
from ..manifests.spark_pods import SparkPlacement
from ..model.snapshot import Node
from .group_status import DEFAULT_RECYCLE_SECONDS, GroupFacts
from .settings import Settings


def drop_actions(observation: Observation, facts: GroupFacts, grace_seconds: int) -> Iterator[DropBucket]:
    """Delete the replicas that the plan calls safe to delete, against the map as it is now."""
    map_version = facts.group.status.map_version
    if map_version is None:
        return
    urls = observation.agent_urls
    tables = tuple(table.reference for table in facts.tables)
    for drop in facts.plan.drops:
        url = urls.get(drop.node)
        if url:
            yield DropBucket(facts.group.identity, map_version, drop.node, url, drop.bucket, tables, grace_seconds)


def delete_group(facts: GroupFacts, now: datetime) -> Iterator[DeleteGroup]:
    """Source: seed 000, "Delete": with the last table of a group, after its recycle time, the group is deleted."""
    delete_after = parse_time(facts.group.status.delete_after)
    if delete_after is not None and now >= delete_after and not facts.tables:
        yield DeleteGroup(facts.group.identity)


def config_map(
    observation: Observation, facts: GroupFacts, nodes: Mapping[str, Node], settings: Settings
) -> WriteConfigMap:
    """The group's ConfigMap for Spark, as it should be."""
    identity = facts.group.identity
    placement = SparkPlacement(
        namespace=identity.namespace,
        group=identity.name,
        nodes=tuple(sorted({node for row in facts.map or () for node in row})),
        data_root=settings.data_root,
        spark_image=settings.spark_image or None,
    )
    urls = observation.agent_urls
    ready = {name: url for name, node in nodes.items() if node.ready and (url := urls.get(name))}
    content = SparkConfigMap(placement=placement, agent_urls=ready, ca_certificate=observation.ca_certificate)
    return WriteConfigMap(identity, content)


def stray_clones(observation: Observation) -> Iterator[RemoveClone]:
    """Clone Jobs of groups that are gone or have been made anew."""
    uids = group_uids(observation)
    for job in observation.clone_jobs:
        if not job.identity.deleting and not is_current(uids, job):
            yield RemoveClone(job.identity)


def recycle_actions(observation: Observation) -> Iterator[RecycleTable]:
    """Folders of tables that are gone go to the recycle bin of their node."""
    urls = observation.agent_urls
    known = {f"{table.identity.namespace}/{table.directory}" for table in observation.tables}
    for node, view in observation.agent_views.items():
        url = urls.get(node)
        if url is None or view.report is None or view.silent_since is not None:
            continue
        for path in view.report.unknown_directories:
            if path not in known:
                namespace, _, directory = path.partition("/")
                keep_seconds = observation.dropped_tables.get(path, DEFAULT_RECYCLE_SECONDS)
                yield RecycleTable(node, url, namespace, directory, keep_seconds)


def collect_actions(observation: Observation, grace_seconds: int) -> Iterator[CollectGarbage]:
    """Files that no committed manifest names: left by loads that did not commit, or by snapshots that are replaced."""
    urls = observation.agent_urls
    tables = {(table.identity.namespace, table.directory): table for table in observation.tables}
    for node, view in observation.agent_views.items():
        url = urls.get(node)
        if url is None or view.report is None or view.silent_since is not None:
            continue
        for held in view.report.tables:
            table = tables.get((held.namespace, held.directory))
            if table is not None and held.surplus_bytes > 0:
                manifests = table.reference.live_manifests
                yield CollectGarbage(node, url, held.namespace, held.directory, manifests, grace_seconds)

