"""What users do: loads, changes of rows, drops and recoveries, new tables and groups, moves, replicas, columns, drains.

Each step ends within its bound, and its outcome is in the history: done, refused, or unknown. A command that fails has
``fail`` only where it is certain that nothing will come of it.
"""

import contextlib
import json
import math
import subprocess
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any

from colocation.model.names import LABEL_DRAIN
from demo.shell import COLOCATION, CommandFailed, kubectl, run

from . import cluster_view, scene
from .doubts import Doubts
from .fault_kinds import error_name, said_by
from .history import FAIL, INFO, OK, History
from .plan import Step
from .rows import CONTENT, PARTS, change_of_rows, select_rows
from .session import NoAnswer, Session, SessionError

LOAD_SECONDS = 240
BURST_COMMITS = 12
COMMAND_SECONDS = 120
RECOVER_SECONDS = 90
SUBMIT_SECONDS = 300
WAYS, DROP_WAYS = ("load", "write", "insert"), ("drop_partitions", "delete")
"""Of the session's program: by ``colocation.spark``, by Spark's own writer, in SQL."""
KEYED = ("write", "insert")
"""They carry an idempotency key, so that one whose outcome is unknown is repeated."""
ATTEMPTS = 3
FIRST_TABLES = ("orders", "items")
PRIVATE = tuple(f"{name}-" for name in (*FIRST_TABLES, "table"))
"""So begin the names of groups that the operator makes for a table that is in none."""
MOST_TABLES = 5
CERTAIN = (
    "NotFound", "already exists", "exists; drop it", "there is nothing to recover", "no dropped table",
    "was never loaded", "Invalid",
)  # fmt: skip
"""Words of commands that have changed nothing and will not."""

SMALL_PODS = """\
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
spec:
  driver: {cores: 1, coreRequest: 200m, memory: 1g, serviceAccount: spark}
  executor: {instances: 2, cores: 1, coreRequest: 200m, memory: 1g}
"""


@dataclass
class _Change:
    """A command of ours that names a group. ``ended``: by the history's clock; infinite while it runs."""

    name: str
    group: str
    ended: float = math.inf


@dataclass(frozen=True)
class Kept:
    """The older snapshots of a table, by a list that was asked for then: id -> manifest, the newest first."""

    asked_at: float
    manifests: dict[int, str]


@dataclass
class Work:
    """All lanes' users. ``tables``: those that may be there; ``binned``: those that were dropped; ``history_of``: the
    snapshots that a table has kept; ``replicas``: of groups, as far as they were seen; ``doubts``: commands of
    unknown outcome; ``ask_long``: asks a long query of a table. ``_gone``: dropped tables of which there is nothing to
    recover, at the end; ``_awaiting``: groups that a table names and is not in, as far as it was seen; ``_changes``: by
    their numbers, those that the newest list may not show.
    """

    history: History
    session: Session
    seed: int
    tables: list[str] = field(default_factory=list)
    binned: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=lambda: [scene.GROUP])
    columns: dict[str, int] = field(default_factory=dict)
    history_of: dict[str, Kept] = field(default_factory=dict)
    replicas: dict[str, int] = field(default_factory=dict)
    drained: str = ""
    doubts: Doubts = field(default_factory=Doubts)
    ask_long: Callable[[str], None] = lambda _table: None
    _gone: set[str] = field(default_factory=set)
    _awaiting: set[str] = field(default_factory=set)
    _changes: dict[int, _Change] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _batch: int = 0

    def do(self, step: Step) -> None:
        """Take a step; one that makes no sense now (nothing was dropped that could be recovered) is left out."""
        action: Callable[[Random], None] = getattr(self, "_" + step.name.replace("-", "_"))
        action(Random(f"step {self.seed} {step.number} {step.die}"))

    def set_the_scene(self) -> None:
        """The first two tables, with rows in every partition."""
        for table in FIRST_TABLES:
            self.make_table(table, scene.GROUP)
            self.load("append", table, list(range(PARTS)))

    def about_to_list(self) -> float:
        """The moment before a list is asked for, for ``sync``."""
        return self.history.now()

    def sync(self, tables: list[dict[str, Any]], groups: list[dict[str, Any]], asked_at: float) -> None:
        """What the API server has by now: also after a restored etcd, or a command whose outcome was not known. What
        was changed after the list was asked for, or is being changed, stays as we know it.
        """
        listed = {group["metadata"]["name"]: group["spec"]["replicas"] for group in groups}
        kept = {table["metadata"]["name"]: table.get("status", {}).get("history") or [] for table in tables}
        self.history_of = {name: Kept(asked_at, manifests_of(history)) for name, history in kept.items()}
        with self._lock:
            known = {*self.tables, *self.binned}
            self.tables = [name for name in kept if name in known]
            self.binned = sorted(known - set(kept))
            self._changes = {number: one for number, one in self._changes.items() if one.ended >= asked_at}
            changed = self._groups_of("replicas")
            ours = {name: size for name, size in self.replicas.items() if name in listed and name in changed}
            self.replicas = listed | ours
            self._awaiting = {table["spec"].get("colocateWith") for table in tables if not is_where_it_should_be(table)}
            self.groups = [name for name in self.replicas if not name.startswith(PRIVATE)] or [scene.GROUP]

    # Rows

    def _append(self, random: Random) -> None:
        self._load_any("append", random)

    def _overwrite(self, random: Random) -> None:
        self._load_any("overwrite", random)

    def _overwrite_partitions(self, random: Random) -> None:
        self._load_any("overwrite-partitions", random)

    def _load_any(self, mode: str, random: Random) -> None:
        if self.tables:
            self.load(mode, random.choice(self.tables), sorted(random.sample(range(PARTS), random.randint(1, PARTS))))

    def load(self, mode: str, table: str, parts: list[int]) -> bool:
        """Load one batch; whether it was committed."""
        with self._lock:
            self._batch += 1
            batch = self._batch
        way = WAYS[batch % len(WAYS)]
        number = self.history.invoke("work", mode, table=table, parts=parts, batch=batch, way=way)
        request: dict[str, Any] = {"do": way, "table": table, "mode": mode, "select": select_rows(parts, batch)}
        if way in KEYED:
            request |= {"key": f"{table}-{batch}", "attempts": ATTEMPTS}
        return self._ask(mode, number, **request)

    def _drop_partitions(self, random: Random) -> None:
        if self.tables:
            table, parts = random.choice(self.tables), [random.randrange(PARTS)]
            way = random.choice(DROP_WAYS)
            number = self.history.invoke("work", "drop-partitions", table=table, parts=parts, way=way)
            self._ask("drop-partitions", number, do=way, table=table, parts=parts)

    def _update(self, random: Random) -> None:
        self._change_rows("update", random)

    def _delete(self, random: Random) -> None:
        self._change_rows("delete", random)

    def _merge(self, random: Random) -> None:
        self._change_rows("merge", random)

    def _change_rows(self, name: str, random: Random) -> None:
        """A statement that changes single rows, with a key, so that one whose outcome is unknown is repeated."""
        if not self.tables:
            return
        table, parts = random.choice(self.tables), sorted(random.sample(range(PARTS), random.randint(1, PARTS)))
        with self._lock:
            self._batch += 1
            batch = self._batch
        number = self.history.invoke("work", name, table=table, parts=parts, batch=batch)
        statement = change_of_rows(name, parts, batch, select_rows(parts, batch))
        key = f"{table}-{batch}"
        self._ask(name, number, do="change", table=table, statement=statement, key=key, attempts=ATTEMPTS)

    def _compact(self, random: Random) -> None:
        if self.tables:
            table = random.choice(self.tables)
            number = self.history.invoke("work", "compact", table=table)
            self._ask("compact", number, do="compact", table=table)

    def _burst(self, _: Random) -> None:
        """More commits than the table's history keeps, under a query that was planned before: it has to find its files.

        On the first table, which no one drops.
        """
        if not self.tables:
            return
        with ThreadPoolExecutor(1) as other:
            asked = other.submit(self.ask_long, self.tables[0])
            for number in range(BURST_COMMITS):
                self.load("overwrite-partitions", self.tables[0], [number % PARTS])
            asked.result()

    def _ask(self, name: str, number: int, **request: Any) -> bool:
        try:
            answer = self.session.ask(number, LOAD_SECONDS, **request)
        except NoAnswer as error:
            self.history.note("work", INFO, name, number, error=str(error))
        except SessionError as error:
            self.history.note("work", FAIL, name, number, error=str(error))
        else:
            self.history.note("work", OK, name, number, snapshot=answer.get("snapshot_id"))
            return True
        return False

    # Tables and groups

    def make_table(self, name: str, group: str) -> None:
        """A table in a group; a group that is not there comes with it."""
        spec = scene.table_spec(group)
        with self._lock:
            self.tables.append(name)
        self._command("create", lambda: scene.apply("ColocatedTable", name, spec), table=name, group=group)

    def _create(self, random: Random) -> None:
        with self._lock:
            number = len(self.tables) + len(self.binned) + 1
            if number > MOST_TABLES:
                return
            group = random.choice([*self._open_groups(), f"group-{number}", f"group-{number}"])
        self.make_table(f"table-{number}", group)

    def _drop(self, random: Random) -> None:
        """Any but the first one, so that something is always there to be queried."""
        with self._lock:
            if len(self.tables) < 2:
                return
            table = random.choice(self.tables[1:])
        command = ("delete", "ct", table, "-n", scene.NAMESPACE, "--timeout=60s")
        self._command("drop", lambda: kubectl(*command), table=table)

    def _recover(self, random: Random) -> None:
        with self._lock:
            if not self.binned:
                return
            table = random.choice(self.binned)
        self._bring_back(table)

    def _bring_back(self, table: str) -> str:
        """Recover a table: the command's outcome, as the history has it."""
        command = [COLOCATION, "recover", table, "-n", scene.NAMESPACE, "--wait-seconds", str(RECOVER_SECONDS)]
        return self._command("recover", lambda: run(command, timeout_seconds=COMMAND_SECONDS), table=table)

    def _move(self, random: Random) -> None:
        if self.tables:
            table, group = random.choice(self.tables), random.choice([*self._open_groups(), ""])
            self._command("move", lambda: scene.patch("ct", table, {"colocateWith": group}), table=table, group=group)

    def _open_groups(self) -> list[str]:
        """Those that take our tables: others have more replicas by now, and refuse them."""
        return [name for name in self.groups if self.replicas.get(name, scene.REPLICAS) == scene.REPLICAS]

    def _columns(self, random: Random) -> None:
        if self.tables:
            table = random.choice(self.tables)
            self.columns[table] = self.columns.get(table, 0) + 1
            columns = scene.table_spec("", self.columns[table])["columns"]
            self._command("columns", lambda: scene.patch("ct", table, {"columns": columns}), table=table)

    def _replicas(self, random: Random) -> None:
        """More replicas only while there are nodes for them, and no table is on its way into the group, which would
        refuse it.
        """
        group, wanted = random.choice(self.groups), random.choice([2, 3])
        is_raised = wanted > scene.REPLICAS
        if is_raised and group in self._awaiting | self._groups_of("create", "move"):
            return
        if wanted <= len(scene.running()) - bool(self.drained):
            self._set_replicas(group, wanted)

    def _groups_of(self, *names: str) -> set[str]:
        """The groups of commands that run, or that the newest list may not show."""
        return {one.group for one in list(self._changes.values()) if one.name in names}

    def _set_replicas(self, group: str, wanted: int) -> None:
        self.replicas[group] = wanted
        change = {"replicas": wanted}
        self._command("replicas", lambda: scene.patch("cg", group, change), group=group, replicas=wanted)

    # Nodes and applications

    def _drain(self, random: Random) -> None:
        nodes = [member.name for member in scene.running()]
        if not self.drained and len(nodes) > max([scene.REPLICAS, *self.replicas.values()]):
            self.drained = random.choice(nodes)
            self._on_node("drain", self.drained)

    def _undrain(self, _: Random) -> None:
        if self.drained and self._on_node("undrain", self.drained) == OK:
            self.drained = ""

    def _on_node(self, name: str, node: str) -> str:
        return self._command(name, lambda: run([COLOCATION, name, node], timeout_seconds=COMMAND_SECONDS), node=node)

    def _submit(self, random: Random) -> None:
        """A short application of its own, without a Spark operator."""
        if not self.tables:
            return
        table = random.choice(self.tables)
        statement = CONTENT.format(f"`{table}`").replace("\n", " ")
        number = self.history.invoke("queries", "query", query="content", tables=[table], submitted=True)
        command = [COLOCATION, "sql", statement, "-n", scene.NAMESPACE, "--group", scene.GROUP, "--direct",
                   "-o", "json", "--application", "-"]  # fmt: skip
        try:
            output = run(command, stdin=SMALL_PODS, timeout_seconds=SUBMIT_SECONDS).stdout
        except subprocess.TimeoutExpired:
            self.history.note("queries", INFO, "query", number, error=f"NoAnswerInTime: submitted, {SUBMIT_SECONDS} s")
            return
        except CommandFailed as error:
            self.history.note("queries", INFO, "query", number, error=error_of_application(str(error)[-2000:]))
            return
        self.history.note("queries", OK, "query", number, rows=rows_of(output), manifests={})

    def undo(self) -> None:
        """What must not stay when all is to be well: a drained node, replicas for which a group refuses a table, tables
        that were dropped, as their rows have to be proved, too.

        Which nodes are drained is asked of the API server: it may have been restored.
        """
        with contextlib.suppress(cluster_view.ApiAway):
            for node in cluster_view.get("nodes", "-l", LABEL_DRAIN):
                self._on_node("undrain", node["metadata"]["name"])
            self.drained = ""
            for group in refusing(*cluster_view.groups_and_tables()):
                self._set_replicas(group, scene.REPLICAS)
            for table in self.to_bring_back():
                if self._bring_back(table) == FAIL:
                    self._gone.add(table)

    def to_bring_back(self) -> list[str]:
        """Dropped tables that ``undo`` has to bring back; of all others it was said that nothing is to be recovered."""
        return [table for table in self.binned if table not in self._gone]

    def _command(self, name: str, action: Callable[[], object], **detail: Any) -> str:
        """Run a command of a user: its outcome, as the history has it."""
        number = self.history.invoke("work", name, **detail)
        change = _Change(name, detail.get("group", ""))
        with self._lock:
            self._changes[number] = change
        try:
            action()
        except subprocess.TimeoutExpired as error:
            self._doubt(name, number, f"ApiUnavailable: timed out: {error}"[:1000], detail)
        except CommandFailed as error:
            if any(word in said_by(str(error)) for word in CERTAIN):
                self.history.note("work", FAIL, name, number, error=str(error)[-1500:])
                return FAIL
            self._doubt(name, number, str(error)[-1500:], detail)
        else:
            self.history.note("work", OK, name, number)
            return OK
        finally:
            change.ended = self.history.now()
        return INFO

    def _doubt(self, name: str, number: int, said: str, detail: dict[str, Any]) -> None:
        self.history.note("work", INFO, name, number, error=said)
        self.doubts.add(number, detail.get("table", ""))


def manifests_of(history: list[dict[str, Any]]) -> dict[int, str]:
    """Of a table's ``status.history``: id -> the manifest's digest, in hex."""
    return {int(one["id"]): str(one["manifest"]).removeprefix("sha256:") for one in history}


def is_where_it_should_be(table: dict[str, Any]) -> bool:
    """Whether a table is in the group that its spec names, if it names one."""
    named = table["spec"].get("colocateWith")
    return not named or named == table.get("status", {}).get("group")


def stays_for_its_replicas(table: dict[str, Any], groups: Iterable[dict[str, Any]]) -> bool:
    """Whether a table is rightly kept out of the group that it names, and takes loads where it is.

    One that was brought back while in no group has the number of replicas in its spec, and only ``colocateWith`` of it
    was changed since.
    """
    replicas = {group["metadata"]["name"]: group["spec"]["replicas"] for group in groups}
    named, status = replicas.get(table["spec"].get("colocateWith")), table.get("status", {})
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
    differs = named is not None and table["spec"].get("replicas", named) != named
    return differs and is_ready and not status.get("accepted")


def error_of_application(said: str) -> str:
    """How a submitted query ended. A driver that is gone gives no reason; a wrong use of the command does."""
    is_known = error_name(said) or any(word in said for word in ("Traceback", "Usage:"))
    return said if is_known else f"SessionLost: submitted: {said}"


def refusing(groups: list[dict[str, Any]], tables: list[dict[str, Any]]) -> list[str]:
    """The groups that a table names and cannot join any more: their replicas were changed before it was accepted."""
    named = {table["spec"].get("colocateWith") for table in tables if not table.get("status", {}).get("accepted")}
    return [
        group["metadata"]["name"]
        for group in groups
        if group["metadata"]["name"] in named and group["spec"]["replicas"] != scene.REPLICAS
    ]


def rows_of(output: str) -> list[list[Any]]:
    """The rows of ``colocation sql -o json``."""
    rows: list[list[Any]] = json.loads(output[output.index("{"):])["rows"]
    return rows
