"""``adopt``: makes tables again from the manifests on the disks, after their objects were lost."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import click
from urllib3.exceptions import HTTPError

from ...manifests.recovered_table import adopted_table, adopting_group
from ...model.adoption import OrphanFolder, OrphanSnapshot
from ...model.agent import RecycledSchema
from ...model.base import MAX_REPLICAS
from ...model.spark_types import canonical_type
from ..cluster import Cluster
from ..errors import CommandFailed, said_by
from ..operator_port import fetch_orphans
from ..terminal.options import Target, cluster_options, operator_namespace_option, output_option
from ..terminal.output import Format, columns, counted, size, write

MAX_NAME_LENGTH = 63
USUAL_COPIES = 2


@dataclass
class Adopted:
    """One folder and what becomes of it. ``passed_over``: newer snapshots, and why each is not taken.

    ``is_recycled``: only a recycle bin may have all of it. ``is_failed``: the cluster did not take its group or table.
    """

    folder: OrphanFolder
    chosen: OrphanSnapshot | None
    group: str = ""
    refusal: str = ""
    passed_over: list[str] = field(default_factory=list)
    is_recycled: bool = False
    is_failed: bool = False

    def to_json_dict(self) -> dict[str, object]:
        """For programs."""
        return {
            "namespace": self.folder.namespace,
            "table": self.folder.table,
            "directory": self.folder.directory,
            "nodes": list(self.folder.nodes),
            "recycledNodes": list(self.folder.recycled_nodes),
            "group": self.group,
            "adopted": not self.refusal,
            "reason": self.refusal,
            "snapshot": self.chosen.snapshot.to_json_dict() if self.chosen and not self.refusal else None,
            "passedOver": self.passed_over,
        }


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Adopt folders of all namespaces.")
@click.option("--table", default=None, help="Adopt only the folders of this table.")
@click.option("--group", default=None, help="Group of the new tables; default: one group per bucket key.")
@click.option("--recycled", is_flag=True, help="Also adopt folders in the recycle bins that no group remembers.")
@click.option("--dry-run", is_flag=True, help="Print what would be created; create nothing.")
@cluster_options
@operator_namespace_option
@output_option
def adopt(
    all_namespaces: bool,
    table: str | None,
    group: str | None,
    recycled: bool,
    dry_run: bool,
    target: Target,
    operator_namespace: str,
    output: Format,
) -> None:
    """Recreate lost tables from the files on the nodes.

    Use this after etcd was restored, or after objects were lost. Each folder that belongs to no table becomes a table
    again, with its newest snapshot whose buckets are all complete on some node. The operator then takes over the files.
    This command copies and deletes nothing.

    The exit code is 1 if the API server refuses a group or a table; the others are adopted all the same. The report
    says why, and names a group that was made and has no table.

    A folder in the recycle bins was dropped by somebody, or was recycled before anyone missed its objects. The command
    lists it. With --recycled it is adopted too, with its newest snapshot; the operator commits that snapshot once it
    has found every bucket complete.
    """
    cluster = target.open()
    found = fetch_orphans(cluster.connection, operator_namespace).folders
    wanted = [one for one in found if all_namespaces or one.namespace == cluster.namespace]
    wanted = [one for one in wanted if table in (None, one.table)]
    plans = _plans(wanted, group, recycled)
    for plan in plans:
        if not plan.refusal and not dry_run:
            _adopt(cluster, plan, _replicas(plan, plans))
    write([one.to_json_dict() for one in plans], _text(plans, dry_run), output)
    failed = sum(one.is_failed for one in plans)
    if failed:
        raise CommandFailed(
            f"{failed} of {counted(len(plans), 'table was', 'tables were')} refused, as the report says; mend that and "
            "run the command again: it adopts what is left"
        )
    if any(not one.is_recycled for one in plans) and all(one.refusal for one in plans):
        raise CommandFailed("no table was adopted")


def _plans(folders: Iterable[OrphanFolder], group: str | None, recycled: bool) -> list[Adopted]:
    """One per folder. Of several folders of one table's name, the newest snapshot wins; the others stay as they are.

    One that is whole in its place wins over one that lies in the bins.
    """
    plans = [_plan(folder, group, recycled) for folder in folders]
    best: dict[tuple[str, str], Adopted] = {}
    for plan in plans:
        key = (plan.folder.namespace, plan.folder.table)
        other = best.get(key)
        if plan.chosen and (other is None or _rank(plan) > _rank(other)):
            best[key] = plan
    for plan in plans:
        winner = best.get((plan.folder.namespace, plan.folder.table))
        if not plan.refusal and plan is not winner and winner is not None:
            how = "has a newer snapshot" if winner.is_recycled == plan.is_recycled else "that is in its place has one"
            plan.refusal = f"folder {winner.folder.directory} {how} of the same table"
    return plans


def _rank(plan: Adopted) -> tuple[bool, str, int]:
    assert plan.chosen is not None
    return not plan.is_recycled, plan.chosen.snapshot.committed_at, plan.chosen.snapshot.id


def _plan(folder: OrphanFolder, group: str | None, recycled: bool) -> Adopted:
    chosen = folder.chosen
    if chosen is None and folder.recycled_nodes and folder.snapshots:
        return _plan_of_recycled(folder, folder.snapshots[0], group, recycled)
    newer = [one for one in folder.snapshots if chosen is None or one.snapshot.id > chosen.snapshot.id]
    passed_over = [f"snapshot {one.snapshot.id}: {_why_not(one)}" for one in newer if one is not chosen]
    if chosen is None:
        problem = folder.problem or "no snapshot is complete; nodes that are away may have the rest"
        return Adopted(folder, None, refusal=problem, passed_over=passed_over)
    return Adopted(folder, chosen, group or group_name(chosen.table_schema), passed_over=passed_over)


def _plan_of_recycled(folder: OrphanFolder, newest: OrphanSnapshot, group: str | None, recycled: bool) -> Adopted:
    """Nobody can say what of it is whole before it is back in its place."""
    listed = ", ".join(folder.recycled_nodes)
    if not recycled:
        refusal = f"it is in the recycle bin of {listed}; to adopt it, unless it was dropped on purpose: --recycled"
        return Adopted(folder, None, refusal=refusal, is_recycled=True)
    note = f"snapshot {newest.snapshot.id} comes from the recycle bin of {listed}; its files are not verified yet"
    return Adopted(folder, newest, group or group_name(newest.table_schema), passed_over=[note], is_recycled=True)


def _why_not(snapshot: OrphanSnapshot) -> str:
    if snapshot.missing_buckets is None:
        return "not checked; it is in a recycle bin, or a newer one is complete"
    listed = ", ".join(map(str, snapshot.missing_buckets[:10]))
    return f"no node has complete buckets {listed}"


def group_name(schema: RecycledSchema) -> str:
    """The group of adopted tables of this bucket key: the same for all of them, however often the command is run."""
    types = [
        canonical_type(column.type)
        for key in schema.bucketed_by
        for column in schema.columns
        if column.name.lower() == key.lower()
    ]
    text = re.sub(r"[^a-z0-9]+", "-", f"adopted-{'-'.join(types)}-{schema.buckets}".lower())
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[: MAX_NAME_LENGTH - 7].rstrip('-')}-{schema.buckets}"


def _replicas(plan: Adopted, plans: Sequence[Adopted]) -> int:
    """As many as the tables of the group have copies; of one in the recycle bins nobody has counted them."""
    key = (plan.folder.namespace, plan.group)
    copies = [
        min(USUAL_COPIES, len(one.folder.nodes)) if one.is_recycled else one.chosen.copies
        for one in plans
        if one.chosen and (one.folder.namespace, one.group) == key
    ]
    return min(MAX_REPLICAS, max([1, *copies]))


def _adopt(cluster: Cluster, plan: Adopted, replicas: int) -> None:
    """Make the group, unless it is there, and the table; note in the plan why not, if the cluster does not take them.

    Both are tried before, so that no group is made for a table that is refused.
    """
    assert plan.chosen is not None
    namespace, is_group_made = plan.folder.namespace, False
    group = adopting_group(namespace, plan.group, plan.chosen.table_schema, replicas)
    table = adopted_table(plan.folder, plan.chosen, plan.group)
    try:
        cluster.create(group, dry_run=True)
        is_made = cluster.create(table, dry_run=True)
        if is_made:
            is_group_made = cluster.create(group)
            is_made = cluster.create(table)
    except (CommandFailed, HTTPError) as error:
        plan.refusal, plan.is_failed = said_by(error), True
    else:
        plan.refusal = "" if is_made else f"a table {namespace}/{plan.folder.table} exists; drop or rename it first"
    if plan.refusal and is_group_made:
        plan.refusal += f"; group {namespace}/{plan.group} was made for it and stays; another run uses it"


def _text(plans: Sequence[Adopted], dry_run: bool) -> str:
    if not plans:
        return "every table folder on the nodes belongs to a table, or to one in the recycle bin; nothing to adopt"
    rows = [
        [
            one.folder.namespace,
            one.folder.table,
            one.group,
            one.chosen.snapshot.id if one.chosen else None,
            one.chosen.snapshot.rows if one.chosen else None,
            size(one.chosen.snapshot.bytes) if one.chosen else None,
            len(one.folder.nodes),
            one.refusal or ("would be adopted" if dry_run else "adopted"),
        ]
        for one in plans
    ]
    header = ["NAMESPACE", "TABLE", "GROUP", "SNAPSHOT", "ROWS", "BYTES", "NODES", "RESULT"]
    passed = [f"{one.folder.namespace}/{one.folder.table}: {text}" for one in plans for text in one.passed_over]
    last = [] if dry_run else ["the operator brings the files in; look at `colocation tables`"]
    return "\n".join([columns(header, rows), *passed, *last])

