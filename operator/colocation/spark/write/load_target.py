"""Where a load may go: a table that is accepted, its group's map, and agents that are ready."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from colocation.model.group import BucketSequence

from ..catalog import Catalog, GroupObject, NoAnswer, NotInCatalog, TableObject
from .copies import majority

POLL_SECONDS = 1.0


class NotReady(Exception):
    """The table cannot be loaded yet; says what is missing."""


@dataclass(frozen=True)
class LoadTarget:
    """A table that can be loaded, its group's map, and the ready agents' URLs by node."""

    table: TableObject
    group: GroupObject
    buckets: BucketSequence
    agents: dict[str, str]


def wait_until_loadable(
    catalog: Catalog,
    namespace: str,
    name: str,
    wait_seconds: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> LoadTarget:
    """Wait until the operator has accepted the table, made a map, and told where its agents are.

    Raises:
        NotReady: it has not within ``wait_seconds``; says what is missing.
    """
    deadline = clock() + wait_seconds
    target: LoadTarget | str
    while True:
        try:
            target = find_target(catalog, namespace, name)
        except NoAnswer as error:
            target = str(error)
        if isinstance(target, LoadTarget):
            return target
        if clock() >= deadline:
            raise NotReady(f"table {namespace}.{name} cannot be loaded after {wait_seconds:g} s: {target}")
        sleep(POLL_SECONDS)


def find_target(catalog: Catalog, namespace: str, name: str) -> LoadTarget | str:
    """The target, or what it lacks."""
    table = catalog.get_table(namespace, name)
    if table.refusal is not None:
        return table.refusal
    try:
        group = catalog.get_group(namespace, table.group)
        agents = catalog.get_agents(namespace, table.group)
    except NotInCatalog as error:
        return str(error)
    refusal = group.refusal(namespace)
    if refusal:
        return refusal
    buckets = group.status.backends_per_bucket_seq
    if not buckets:
        return f"group {group.name} has no map yet ({group.status.reason or 'the operator has not seen it'})"
    if len(buckets) != group.spec.buckets:
        return f"group {group.name} has {group.spec.buckets} buckets, but its map has {len(buckets)}"
    ready = {node for nodes in buckets for node in nodes if node in agents.urls}
    for bucket, nodes in enumerate(buckets):
        if len(ready) < majority(len(nodes)):
            return (
                f"bucket {bucket} lies on nodes {', '.join(nodes)}; of the group's nodes {len(ready)} have a ready "
                f"agent; at least {majority(len(nodes))} must"
            )
    return LoadTarget(table, group, buckets, agents.urls)
