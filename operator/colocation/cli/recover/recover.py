"""``recover``: asks the operator for a dropped table, and waits until it is back.

The request is an annotation of the group that remembers the table, so it needs no way to the operator but the API
server, and outlasts a restart of either.
"""

import time
from collections.abc import Callable
from typing import Any

import click

from ...model.conditions import ConditionType, EventReason, Reason
from ...model.group import RecycledTable
from ...model.names import ANNOTATION_RECOVERS, RECOVER_PREFIX, group_key
from ...model.salvage import salvage
from ...model.table import ColocatedTableStatus, TableSnapshot
from ...model.wording import counted
from ..cluster import Cluster, SeenGroups
from ..errors import CommandFailed
from ..inspect.objects import members_in, recycled_in
from ..terminal.live import warn
from ..terminal.options import Seconds, Target, cluster_options, complete_table, output_option
from ..terminal.output import Format, size, tell, write

POLL_SECONDS = 0.5
SETTLED_SECONDS = 5.0
"""While agents bring files back and verify them, the table's condition passes through states that mean nothing."""

ELSEWHERE = "`colocation tables -A` lists those of all namespaces, dropped ones with a *: choose one with -n"

SeeGroups = Callable[[], SeenGroups]
"""Looks again at the groups that may remember the table."""


@click.command()
@click.argument("table", shell_complete=complete_table)
@click.option("--wait-seconds", type=Seconds(), default=300, show_default=True,
              metavar="SECONDS", help="Stop waiting after SECONDS; the operator goes on.")  # fmt: skip
@click.option("--group", "reference", default=None, metavar="[NAMESPACE/]NAME",
              help="The group that TABLE was in; default: all groups that you may list.")  # fmt: skip
@cluster_options
@output_option
def recover(table: str, wait_seconds: float, reference: str | None, target: Target, output: Format) -> None:
    """Bring a dropped table back from the recycle bin.

    TABLE comes back with its files, its snapshot and its rows. If several dropped tables had this name, the command
    takes the one with rows that was dropped last. `colocation tables` marks dropped tables with *. If TABLE was in a
    group of another namespace, and you may not list the groups of all namespaces, name it by --group.
    """
    cluster, patience = target.open(), Patience(wait_seconds)
    see = _looking_at(cluster, reference)
    group, record = _dropped(cluster, see, table, patience)
    _check(cluster, record)
    metadata = group["metadata"]
    request = f"{RECOVER_PREFIX}{record.uid[:8]}"
    cluster.annotate_group(metadata["namespace"], metadata["name"], request, f"{record.namespace}/{record.name}")
    snapshot = _wait(cluster, see, group, record, patience)
    text = f"table {record.namespace}/{record.name} is back: snapshot {snapshot.id}, {counted(snapshot.rows, 'row')}, "
    result = {"namespace": record.namespace, "table": record.name, "snapshot": snapshot.to_json_dict()}
    write(result, f"{text}{size(snapshot.bytes)}", output)


def _looking_at(cluster: Cluster, reference: str | None) -> SeeGroups:
    """Of one group when it is named, else of all."""
    if reference is None:
        return cluster.groups_everywhere
    key = group_key(cluster.namespace, reference)
    if not all(key):
        raise click.UsageError(f"--group is {reference!r}; allowed: NAME, or NAMESPACE/NAME")
    return lambda: SeenGroups([cluster.group_of(key)])


class Patience:
    """How long a command waits, and what it has said of it. ``seconds``: from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._said_since = time.monotonic()
        self._deadline, self._said, self._shown = self._said_since + seconds, "", ""

    def wait(self, table: str, said: str, settled_seconds: float = 0) -> bool:
        """A moment, unless all is over; what is waited for is printed once, when it has stood for so long."""
        now = time.monotonic()
        if said != self._said:
            self._said, self._said_since = said, now
        if said != self._shown and now - self._said_since >= settled_seconds:
            tell(f"{table}: {said}", err=True)
            self._shown = said
        if now >= self._deadline:
            return False
        time.sleep(POLL_SECONDS)
        return True


def _dropped(
    cluster: Cluster, see: SeeGroups, table: str, patience: Patience
) -> tuple[dict[str, Any], RecycledTable]:
    """The group that remembers the table, and what it remembers."""
    groups, gap = see()
    while _is_just_dropped(cluster, table, groups):
        if not patience.wait(table, "waiting for the operator to see that it was dropped"):
            raise CommandFailed(
                f"the operator has not seen within {patience.seconds:g} s that table {cluster.namespace}/{table} was "
                "dropped; nothing is deleted before it has. See that it runs (`colocation doctor`), then try again"
            )
        groups, gap = see()
    found = list(recycled_in(cluster.namespace, groups))
    named = [(group, record) for group, record in found if record.name == table]
    if named:
        warn([gap] if gap else [])
        return max(named, key=lambda pair: (pair[1].snapshot is not None, pair[1].deleted_at))
    if cluster.find_table(table) is not None:
        raise CommandFailed(f"table {cluster.namespace}/{table} exists; there is nothing to recover")
    cluster.check_namespace()
    names = ", ".join(sorted({record.name for _, record in found})) or f"none; {ELSEWHERE}"
    raise CommandFailed(
        f"no dropped table {table!r} of namespace {cluster.namespace!r} is in the recycle bin; there are: {names}"
        + (f"; {gap}" if gap else "")
    )


def _is_just_dropped(cluster: Cluster, table: str, groups: list[dict[str, Any]]) -> bool:
    """Whether a group still counts a table of this name as its own that is there no more."""
    is_counted = any(member.name == table for member in members_in(cluster.namespace, groups))
    return is_counted and cluster.find_table(table) is None  # asked after the groups: what they count was made before


def _check(cluster: Cluster, record: RecycledTable) -> None:
    """The operator checks the same, and whether it was purged; this reports it at once."""
    name = f"{record.namespace}/{record.name}"
    existing = cluster.find_table(record.name)
    if existing is not None and not _brings_back(existing, record):
        raise CommandFailed(f"table {name} exists; drop it before the one in the recycle bin can come back")
    if record.snapshot is None:
        raise CommandFailed(f"table {name} was never loaded, so there is nothing to recover; create it again")


def _brings_back(table: dict[str, Any], record: RecycledTable) -> bool:
    """Whether the operator made the table for this recovery, which was asked for before; it is waited for then.

    The group shows it a pass after the table does.
    """
    metadata = table["metadata"]
    recovers = (metadata.get("annotations") or {}).get(ANNOTATION_RECOVERS)
    return metadata["uid"] in record.recovery_uids or recovers == record.uid


def _wait(
    cluster: Cluster, see: SeeGroups, group: dict[str, Any], record: RecycledTable, patience: Patience
) -> TableSnapshot:
    was_there = False
    while True:
        answered = _is_answered(see, group, record)  # before the table: the operator makes that first
        table = cluster.find_table(record.name)
        if answered and table is None:
            raise CommandFailed(_why_not(cluster, group, record, was_there))
        was_there |= table is not None
        said, snapshot = _progress(table)
        if snapshot is not None:
            return snapshot
        if not patience.wait(record.name, said, SETTLED_SECONDS):
            raise CommandFailed(
                f"table {record.namespace}/{record.name} is not back after {patience.seconds:g} s ({said}); the "
                "operator goes on; look at `colocation events` of its group"
            )


def _is_answered(see: SeeGroups, group: dict[str, Any], record: RecycledTable) -> bool:
    """Whether the operator has taken the request away."""
    uid, request = group["metadata"]["uid"], f"{RECOVER_PREFIX}{record.uid[:8]}"
    current = next((one for one in see().groups if one["metadata"]["uid"] == uid), None)
    return current is None or request not in (current["metadata"].get("annotations") or {})


def _why_not(cluster: Cluster, group: dict[str, Any], record: RecycledTable, was_there: bool) -> str:
    """Why there is no table though the request was answered."""
    if was_there:
        name = f"{record.namespace}/{record.name}"
        return f"table {name} was dropped again while it came back; its files are in the recycle bin as before"
    return f"the operator refused: {_last_refusal(cluster, group)}"


def _last_refusal(cluster: Cluster, group: dict[str, Any]) -> str:
    if group["metadata"]["namespace"] == cluster.namespace:
        events = cluster.events(group["metadata"]["name"])
        said = [one for one in events if one.get("reason") == EventReason.RECOVER_REFUSED]
        if said:
            return str(said[-1].get("message"))
    return "its events say why: kubectl get events"


def _progress(table: dict[str, Any] | None) -> tuple[str, TableSnapshot | None]:
    """What goes on, and the snapshot once the table has it."""
    if table is None:
        return "waiting for the operator to make the table", None
    status, error = salvage(ColocatedTableStatus, table.get("status"))
    if error:
        return f"{Reason.INVALID_STATUS}: {error}", None
    if status.snapshot is not None and status.accepted:
        return "", status.snapshot
    accepted = next((one for one in status.conditions if one.type == ConditionType.ACCEPTED), None)
    return accepted.message if accepted else "the operator has not seen the table yet", None
