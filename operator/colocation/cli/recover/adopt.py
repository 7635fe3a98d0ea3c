"""``adopt``: makes objects what the nodes' disks hold, after etcd was restored or objects were lost."""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import click
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ...manifests.recovered_table import adopted_table, adopting_group
from ...model.adoption import Folders, TableFolder
from ...model.names import ANNOTATION_ADOPTS, ANNOTATION_DISCARDED_FOLDERS, table_directory
from ...model.salvage import salvage
from ...model.table import ColocatedTableSpec, ColocatedTableStatus, retained_history
from ...model.wording import counted, first_few
from ...reconcile.adoption import AdoptionStep, Does, adoption_steps, replicas_of
from ..cluster import Cluster
from ..errors import HTTP_CONFLICT, CommandFailed, said_by
from ..port_forward import OperatorUnreachable, fetch_folders
from ..terminal.live import Say, moving_line
from ..terminal.options import Seconds, Target, cluster_options, operator_namespace_option, output_option
from ..terminal.output import Format, columns, size, write

POLL_SECONDS = 2.0
MAX_ELSEWHERE = 5
NOTHING = "nothing to adopt"
EVERY_FOLDER = "every table folder on the nodes belongs to a table, or to one in the recycle bin"
NOTHING_TO_DISCARD = "nothing to discard"
EVERY_FOLDER_IN_PLACE = "every table folder on the nodes belongs to a table"
DONE = {Does.CREATE: "created", Does.TAKE_OVER: "taken over", Does.COMMIT: "committed"}


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Look at folders of all namespaces.")
@click.option("--table", default=None, help="Look only at the folders of this table.")
@click.option("--group", default=None, help="Group of created tables; default: one group per bucket key.")
@click.option("--recycled", is_flag=True, help="Also create tables from folders in the recycle bins.")
@click.option("--discard", is_flag=True, help="Let the files of folders without a table go instead.")
@click.option("--yes", is_flag=True, help="Do it; without it the command only shows what it would do.")
@click.option("--wait-seconds", type=Seconds(), default=600, show_default=True,
              metavar="SECONDS", help="Stop waiting for the nodes after SECONDS.")  # fmt: skip
@cluster_options
@operator_namespace_option
@output_option
def adopt(
    all_namespaces: bool,
    table: str | None,
    group: str | None,
    recycled: bool,
    discard: bool,
    yes: bool,
    wait_seconds: float,
    target: Target,
    operator_namespace: str,
    output: Format,
) -> None:
    """Take over what the nodes hold after objects were lost.

    Use this after etcd was restored to an older state, or after objects were deleted by mistake. A folder without a
    table becomes a table again, with its newest snapshot whose buckets are all complete on some node. A table whose
    files are in a folder of another uid gets them. After a restore of etcd, a table gets the commits that are newer
    than its object. With -A --yes the operator then deletes files again. This command copies and deletes nothing.

    Without --yes the command shows what it would do. Folders in the recycle bins were dropped by somebody: they are
    listed, and adopted only with --recycled.

    If tables were deleted on purpose, for example with their namespace, --discard lets the files of their folders go:
    the operator moves the folders to the recycle bins a minute later, and the agents purge them a day after that.

    The exit code is 1 if the API server refuses a group or a table; the others are adopted all the same.
    """
    if all_namespaces and target.namespace:
        raise click.UsageError(f"-A is all namespaces, -n {target.namespace} one: leave one of them out")
    if discard and (group or recycled):
        raise click.UsageError("--discard makes no tables: leave --group and --recycled out")
    cluster = target.open()
    adoption = Adoption(cluster, operator_namespace, None if all_namespaces else cluster.namespace, table)
    if discard:
        write(*adoption.discard(yes), output)
        return
    if yes:
        adoption.run(group, recycled, wait_seconds)
        adoption.accept()
    else:
        adoption.steps = adoption_steps(adoption.look(), group, recycled)
    write([adoption.json(one) for one in adoption.shown], adoption.text(yes), output)
    adoption.check(yes)


class Adoption:
    """One run of the command.

    Args:
        cluster: whose objects are written.
        operator_namespace: where the operator is asked what the nodes hold.
        namespace: of the folders; None = all.
        table: name of the folders' table; None = all.

    ``steps``: as of the last look. ``done``: what was carried out before. ``refused``: folder -> why the cluster did
    not take its group or table. ``etcd_restored``: deletions wait for an administrator. ``elsewhere``: namespace/table
    of folders that are not asked for.
    """

    def __init__(self, cluster: Cluster, operator_namespace: str, namespace: str | None, table: str | None) -> None:
        self._cluster = cluster
        self._operator_namespace = operator_namespace
        self._namespace = namespace
        self._table = table
        self.steps: list[AdoptionStep] = []
        self.done: dict[object, AdoptionStep] = {}
        self.refused: dict[str, str] = {}
        self.etcd_restored = False
        self.elsewhere: list[str] = []

    def look(self) -> Folders:
        """The folders that are asked for, as the nodes have them now."""
        found = fetch_folders(self._cluster.connection, self._operator_namespace)
        self.etcd_restored = found.etcd_restored
        return found.model_copy(update={"folders": tuple(self._asked_for(found.folders))})

    def _asked_for(self, folders: Iterable[TableFolder]) -> list[TableFolder]:
        found = {one.path: one for one in folders}
        asked = [one for one in found.values() if self._is_asked_for(one)]
        others = found.keys() - {one.path for one in asked}
        self.elsewhere = sorted({f"{found[path].namespace}/{found[path].table}" for path in others})
        return asked

    def _is_asked_for(self, folder: TableFolder) -> bool:
        return self._namespace in (None, folder.namespace) and self._table in (None, folder.table)

    def run(self, group: str | None, recycled: bool, wait_seconds: float) -> None:
        """Carry out steps, and look again at what the nodes have then, until nothing is left to do.

        Raises:
            CommandFailed: nodes have not handed over their folders in time.
        """
        deadline = time.monotonic() + wait_seconds
        with moving_line() as say:
            while True:
                self.steps = adoption_steps(self._look_until(deadline, say), group, recycled)
                todo = [one for one in self.steps if one.does and one.folder.path not in self.refused]
                if not todo:
                    return
                for step in todo:
                    if step.key not in self.done and step.does is not Does.WAIT:  # else the operator has yet to see it
                        self._carry_out(step)
                listed = "; ".join(sorted(f"{one.folder.path} ({one.reason or one.does})" for one in todo))
                if time.monotonic() >= deadline:
                    raise CommandFailed(f"not done after {wait_seconds:g} s: {listed}; run the command again")
                say(f"waiting for {listed}", "")
                time.sleep(POLL_SECONDS)

    def _look_until(self, deadline: float, say: Say) -> Folders:
        """As ``look``; just after a restore of etcd, the operator's pod may not answer yet."""
        while True:
            try:
                return self.look()
            except OperatorUnreachable as error:
                if time.monotonic() >= deadline:
                    raise
                say(f"{error.message}; asking again", "")
                time.sleep(POLL_SECONDS)

    def accept(self) -> None:
        """Let the operator delete again, once everything was looked at and nothing is left to do."""
        if self.etcd_restored and self._is_about_all and not self.refused:
            self._cluster.accept_restored_etcd(self._operator_namespace)
            self.etcd_restored = False

    @property
    def _is_about_all(self) -> bool:
        return self._namespace is None and self._table is None

    def _carry_out(self, step: AdoptionStep) -> None:
        try:
            match step.does:
                case Does.CREATE:
                    self._create(step)
                case Does.TAKE_OVER:
                    self._take_over(step)
                case Does.COMMIT:
                    self._commit(step)
        except (CommandFailed, ApiException, HTTPError) as error:
            if not _is_conflict(error):  # somebody wrote the table meanwhile: it is looked at again
                self.refused[step.folder.path] = self.refused.get(step.folder.path) or said_by(error)
            return
        if step.folder.path not in self.refused:
            self.done[step.key] = step

    def _create(self, step: AdoptionStep) -> None:
        """Create the group, unless it exists, and the table. Both are tried before, so that no group is left alone."""
        namespace = step.folder.namespace
        group = adopting_group(namespace, step.group, step.schema, replicas_of(step, self.steps))
        table = adopted_table(step.folder, step.schema, step.group)
        is_group_made = False
        try:
            self._cluster.create(group, dry_run=True)
            if self._cluster.create(table, dry_run=True):
                is_group_made = self._cluster.create(group)
                if self._cluster.create(table):
                    return
            problem = f"a table {namespace}/{step.folder.table} exists; drop or rename it first"
        except (CommandFailed, HTTPError) as error:
            problem = said_by(error)
        if is_group_made:
            problem += f"; group {namespace}/{step.group} was made for it and stays; another run uses it"
        self.refused[step.folder.path] = problem

    def _take_over(self, step: AdoptionStep) -> None:
        assert step.table is not None
        if step.table.adopts != step.folder.uid_digits:
            table = self._read(step)
            self._cluster.annotate_table(table, ANNOTATION_ADOPTS, step.folder.uid_digits)

    def _commit(self, step: AdoptionStep) -> None:
        """As loads do; what was committed since the nodes were asked stays."""
        assert step.table is not None and step.chosen is not None
        table = self._read(step)
        status, problem = salvage(ColocatedTableStatus, table.get("status"))
        known = step.table.snapshot.manifest if step.table.snapshot else None
        if problem or (status.snapshot and status.snapshot.manifest != known):
            raise CommandFailed(problem or "the table was loaded meanwhile; run the command again")
        spec = ColocatedTableSpec.model_validate(table["spec"], extra="ignore")
        replaced = (status.snapshot,) if status.snapshot else ()
        snapshot = step.chosen.snapshot
        history = retained_history(snapshot, replaced + status.history, spec.retention, datetime.now(UTC))
        written = {"snapshot": snapshot.to_json_dict(), "history": [one.to_json_dict() for one in history]}
        self._cluster.commit(table, written)

    def _read(self, step: AdoptionStep) -> dict[str, object]:
        assert step.table is not None
        table = self._cluster.read_table(step.table.namespace, step.table.name)
        if table_directory(step.table.name, table["metadata"]["uid"]) != step.table.directory:
            raise CommandFailed(f"table {step.table.namespace}/{step.table.name} has another uid now; run it again")
        return table

    # Folders whose tables were deleted on purpose

    def discard(self, yes: bool) -> tuple[list[dict[str, object]], str]:
        """Let the files of folders without a table go; for programs and for people.

        The folders are named by an annotation of each Node where they are. A folder's name holds its table's uid, so
        the annotation never holds for another table.
        """
        found = fetch_folders(self._cluster.connection, self._operator_namespace)
        own = {(one.namespace, one.directory) for one in found.tables}
        lost = [one for one in found.folders if (one.namespace, one.directory) not in own and one.nodes_in_place]
        wanted = self._asked_for(lost)
        if yes:
            self._name_on_nodes(lost, wanted)
        result = [
            {"namespace": one.namespace, "table": one.table, "directory": one.directory,
             "nodes": list(one.nodes_in_place), "discarded": yes}
            for one in wanted
        ]  # fmt: skip
        if not wanted:
            return result, self._nothing(NOTHING_TO_DISCARD, EVERY_FOLDER_IN_PLACE)
        header = ["NAMESPACE", "TABLE", "FOLDER", "LAST COMMIT", "ROWS", "BYTES", "NODES"]
        last = "nothing is discarded yet: to let these files go, add --yes; to keep them, leave --discard out"
        if yes:
            last = "the operator moves the folders to the recycle bins in a minute; a day later they are purged"
        return result, f"{columns(header, [_discard_row(one) for one in wanted])}\n\n{last}"

    def _name_on_nodes(self, lost: Sequence[TableFolder], wanted: Sequence[TableFolder]) -> None:
        """In addition to the folders that a Node names already, as long as they are there."""
        named = {node["metadata"]["name"]: _named(node["metadata"]) for node in self._cluster.nodes()}
        for node in sorted({node for one in wanted for node in one.nodes_in_place}):
            there = {one.path for one in lost if node in one.nodes_in_place}
            paths = {one.path for one in wanted if node in one.nodes_in_place} | (there & named.get(node, set()))
            self._cluster.annotate_node(node, ANNOTATION_DISCARDED_FOLDERS, " ".join(sorted(paths)))

    # What is shown

    @property
    def shown(self) -> list[AdoptionStep]:
        """What was done, and what is left."""
        left = [one for one in self.steps if one.key not in self.done]
        return [*self.done.values(), *left]

    def json(self, step: AdoptionStep) -> dict[str, object]:
        """For programs."""
        folder, path = step.folder, step.folder.path
        return {
            "namespace": folder.namespace,
            "table": folder.table,
            "directory": folder.directory,
            "nodes": list(folder.nodes),
            "recycledNodes": list(folder.recycled_nodes),
            "action": step.does.value,
            "done": step.key in self.done,
            "group": step.group,
            "reason": self.refused.get(path, step.reason),
            "snapshot": step.chosen.snapshot.to_json_dict() if step.chosen else None,
            "passedOver": list(step.passed_over),
        }

    def text(self, yes: bool) -> str:
        """For people."""
        if not self.shown:
            return "\n".join([self._nothing(NOTHING, EVERY_FOLDER), *self._frozen()])
        rows = [self._row(one) for one in self.shown]
        header = ["NAMESPACE", "TABLE", "FOLDER", "SNAPSHOT", "ROWS", "BYTES", "NODES", "RESULT"]
        named = [(f"{one.folder.namespace}/{one.folder.table}", one) for one in self.shown]
        passed = [f"{name}: {text}" for name, one in named for text in one.passed_over]
        last = [] if yes or not any(one.does for one in self.shown) else ["nothing is changed yet: to do it, add --yes"]
        return "\n".join([columns(header, rows), *passed, *last, *self._frozen()])

    def _nothing(self, nothing: str, why: str) -> str:
        """That there is nothing to do: anywhere, for this reason, or where one looks; and where to look then."""
        if not self.elsewhere:
            return f"{why}; {nothing}"
        table = f"table {self._table!r}" if self._table else "tables"
        where = f" of namespace {self._namespace!r}" if self._namespace else ""
        names = ", ".join(first_few(self.elsewhere, MAX_ELSEWHERE))
        return f"{nothing} of {table}{where}; there are folders of {names}: choose -n, or -A"

    def _frozen(self) -> list[str]:
        text = "etcd was restored: nothing is deleted until this command was run with --all-namespaces and --yes"
        return [text] if self.etcd_restored else []

    def _row(self, step: AdoptionStep) -> list[object]:
        folder, path = step.folder, step.folder.path
        newest = step.chosen.snapshot if step.chosen else None
        result = f"would {step.does}" if step.does else ""
        if step.key in self.done:
            result = DONE[step.does]
        result += f" in group {step.group}" if step.group else ""
        reason = self.refused.get(path, step.reason)
        result = f"{result}: {reason}" if result and reason else result or reason
        counts = [newest.id, newest.rows, size(newest.bytes)] if newest else [None, None, None]
        return [folder.namespace, folder.table, folder.directory, *counts, len(folder.nodes), result]

    def check(self, yes: bool) -> None:
        """Fail if the cluster refused anything.

        Raises:
            CommandFailed: it did.
        """
        if yes and self.refused:
            raise CommandFailed(
                f"{counted(len(self.refused), 'folder was', 'folders were')} refused, as the report shows; mend that "
                "and run the command again: it adopts what is left"
            )


def _is_conflict(error: Exception) -> bool:
    return isinstance(error, ApiException) and error.status == HTTP_CONFLICT


def _discard_row(folder: TableFolder) -> list[object]:
    newest = folder.snapshots[0].snapshot if folder.snapshots else None
    counts = [newest.committed_at, newest.rows, size(newest.bytes)] if newest else [None, None, None]
    return [folder.namespace, folder.table, folder.directory, *counts, len(folder.nodes_in_place)]


def _named(metadata: dict[str, dict[str, str]]) -> set[str]:
    return set((metadata.get("annotations") or {}).get(ANNOTATION_DISCARDED_FOLDERS, "").split())
