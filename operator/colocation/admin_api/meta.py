"""What GET /api/colocate shows: groups, tables, schemas and maps in Doris' and StarRocks' JSON. Pure.

Source: Doris, "HTTP Restful API". Ids are Kubernetes' own: ``status.groupId`` is ``<dbId>.<grpId>``, backends are
nodes' names, tables ``<namespace>/<name>``.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from ..model.group import ColocationGroupSpec
from ..state.objects import ObservedGroup
from .last_pass import LastPass

Json = dict[str, Any]

_TYPE = re.compile(r"(?P<name>\w+)(?:\((?P<precision>\d+),(?P<scale>\d+)\))?")


def colocate_meta(last_pass: LastPass, namespaces: Collection[str] | None) -> Json:
    """The ``colocate_meta`` of the groups in these namespaces; None = of all."""
    groups = [
        group
        for group in last_pass.observation.groups
        if group.status.group_id and (namespaces is None or group.identity.namespace in namespaces)
    ]
    ids = {group.key: id_parts(group.status.group_id or "") for group in groups}
    tables = {group.key: tables_of(last_pass, group) for group in groups}
    stable = {(plan.namespace, plan.name) for plan in last_pass.plan.groups if plan.stable}
    return {
        "groupName2Id": dict(zip(names_of(groups), ids.values(), strict=True)),
        "group2Tables": {group.status.group_id: tables[group.key] for group in groups},
        "table2Group": {table: ids[group.key] for group in groups for table in tables[group.key]},
        "group2Schema": {
            group.status.group_id: schema_of(ids[group.key], group.spec) for group in groups if group.spec
        },
        "group2BackendsPerBucketSeq": {
            group.status.group_id: [list(nodes) for nodes in group.status.backends_per_bucket_seq or ()]
            for group in groups
        },
        "unstableGroups": [ids[group.key] for group in groups if group.key not in stable],
    }


def id_parts(group_id: str) -> Json:
    """``3f2a91bc.10008`` -> ``{"dbId": "3f2a91bc", "grpId": 10008}``."""
    db, _, number = group_id.partition(".")
    return {"dbId": db, "grpId": int(number)}


def names_of(groups: Sequence[ObservedGroup]) -> list[str]:
    """The groups' names, one each: a name that several namespaces use is written in full, ``<dbId>_<name>``.

    Source: Doris, "Table creation": a group's name is unique in its database, its full name is ``dbId_groupName``.
    """
    uses = Counter(group.identity.name for group in groups)
    return [
        group.identity.name
        if uses[group.identity.name] == 1
        else f"{id_parts(group.status.group_id or '')['dbId']}_{group.identity.name}"
        for group in groups
    ]


def tables_of(last_pass: LastPass, group: ObservedGroup) -> list[str]:
    """The tables that the group took, as ``<namespace>/<name>``."""
    members = last_pass.membership.members.get(group.key, ())
    return [f"{table.identity.namespace}/{table.identity.name}" for table in members]


def schema_of(group_id: Json, spec: ColocationGroupSpec) -> Json:
    """The CGS in Doris' and StarRocks' fields."""
    return {
        "groupId": group_id,
        "distributionColTypes": [column_type(name) for name in spec.bucket_key],
        "bucketsNum": spec.buckets,
        "replicationNum": spec.replicas,
    }


def column_type(name: str) -> Json:
    """A canonical Spark type in Doris' and StarRocks' fields; precision and scale are of decimals."""
    match = _TYPE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a canonical type of a bucket key")
    return {
        "type": match["name"].upper(),
        "len": -1,
        "isAssignedStrLenInColDefinition": False,
        "precision": int(match["precision"] or 0),
        "scale": int(match["scale"] or 0),
    }
