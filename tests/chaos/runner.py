"""Runs a plan on the dev cluster: work, queries, faults and looks side by side; then everything is healed, and judged.

Each wait ends. The history is on disk as it grows, so that a run that is killed can be judged all the same
(``python -m tests.chaos judge FILE``), and the next run begins with a fresh cluster or namespace.
"""

import contextlib
import itertools
import shutil
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from demo import cluster
from demo.shell import COLOCATION, CommandFailed, run
from demo.story import say
from devcluster import paths
from devcluster.errors import DevclusterError

from . import cluster_view, report, scene
from .checker import Verdict, judge
from .disks import Disks
from .faults import Faults
from .history import FAIL, OK, SEEN, History
from .judge_end import LAST_LOOK, LAST_WORDS, LEFTOVERS, STABLE_AGAIN_SECONDS
from .judge_rows import ADOPT, RESTORED
from .plan import LANES, Plan, Step
from .queries import Queries
from .session import Session
from .watch import Watch
from .work import Work

ADOPT_SECONDS = 180
ALL: dict[str, list[str]] = {"options": []}
"""Of an ``adopt`` of all folders."""
COPY_BEFORE_SECONDS = 150.0
"""So long before ``etcd-restored`` the copy is taken."""
JOIN_SECONDS = 960
"""A load that is repeated takes so long at most: see ``work``."""
BEGIN_SECONDS = 600
"""Until the first session serves."""
HEAL_PAUSE_SECONDS = 5.0
"""Between two heals of a fault of which the first gave up."""
HEAL_AGAIN_SECONDS = 120
WARM_SECONDS = 180
"""Until every table was read once after all faults; from then on no error is excused."""
LAST_LOOK_SECONDS = 60
UNDO_LOOKS = 10
"""What users left undone is put right again at each so many looks."""
WELL_LOOKS = 3
"""All is well when it is at so many looks in a row."""
MOST_AT_ONCE = 8
QUERY_SECONDS = 5.0
"""When the plan wants so many queries: what one takes at most, on average."""


@dataclass(frozen=True)
class Ran:
    """A run that is over. ``problem``: what a failed one has to say; empty = nothing went wrong."""

    verdict: Verdict
    problem: str


class Runner:
    """One run. ``values``: of the chart, besides chaos' own."""

    def __init__(self, plan: Plan, values: Mapping[str, str] | None = None) -> None:
        self._plan = plan
        self._values = dict(values or {})
        self.history = History(report.history_path(plan))
        self._session = Session(self.history)
        disks = Disks()
        self._work = Work(self.history, self._session, plan.seed)
        self._queries = Queries(self.history, self._session, self._work)
        self._work.ask_long = self._queries.long_one
        self._faults = Faults(self.history, disks, self._values)
        self._watch = Watch(self.history, disks, self._work)
        self._stop, self._end = threading.Event(), threading.Event()
        self._crashes: list[str] = []
        self._began_at = 0.0

    def run(self) -> Ran:
        """The whole run on a cluster that is up; its namespace is gone afterwards."""
        try:
            self._play()
        finally:
            self._stop.set()
            self._end.set()
            with contextlib.suppress(CommandFailed, DevclusterError, OSError):
                self._faults.heal_all()
            logs = self._save_logs()
            self.history.close()
        verdict = judge(self.history.events)
        report.write(self._plan, self.history.events, verdict)
        say(report.summary(self.history.events))
        problem = report.failure(self._plan, self.history.events, verdict, logs) if verdict.violations else ""
        problem += "\n".join(self._crashes)
        with contextlib.suppress(CommandFailed):
            scene.close_scene()
        return Ran(verdict, problem)

    def _play(self) -> None:
        scene.open_scene(self._values)
        self._watch.begin()
        self._revive(BEGIN_SECONDS)
        if not self._session.is_alive():
            raise TimeoutError(f"no session serves after {BEGIN_SECONDS} s")
        self._work.set_the_scene()
        self._began_at = time.monotonic()
        say(f"chaos: {self._plan.command}: {len(self._plan.faults)} faults")
        looking = self._thread("watch", lambda: self._watch.run(self._end))
        querying = self._thread("queries", lambda: self._queries.run(self._end))
        lanes = [self._thread(f"lane {lane}", lambda lane=lane: self._lane(lane)) for lane in range(LANES)]  # type: ignore[misc]
        self._play_faults()
        self._stop.set()
        self._join(lanes)
        self._finish()
        self._end.set()
        self._join([looking, querying])
        self._last_words()

    def _join(self, threads: list[threading.Thread]) -> None:
        """Wait for threads that end by themselves; one that does not fails the run."""
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self._crashes.append(f"{thread.name} did not end within {JOIN_SECONDS} s")

    # Work and faults

    def _thread(self, name: str, action: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                action()
            except Exception:  # noqa: BLE001 (a thread of ours that dies must fail the run, whatever it died of)
                self._crashes.append(f"{name} crashed:\n{traceback.format_exc()}")
                self._stop.set()

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    def _lane(self, lane: int) -> None:
        for step in self._plan.work:
            if step.lane == lane and not self._wait_until(step.at_seconds):
                self._work.do(step)
            if self._stop.is_set():
                return

    def _play_faults(self) -> None:
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:  # a node's start waits for the API server, whose turn may come
            started = []
            for at_seconds, action in self._timetable():
                if self._wait_until(at_seconds):
                    break
                started.append(pool.submit(action))
            for future in started:
                future.result()
        self._wait_until(self._plan.minutes * 60)
        end = time.monotonic() + self._plan.queries * QUERY_SECONDS
        while self._queries.answered < self._plan.queries and time.monotonic() < end:
            if self._stop.wait(1):
                break
        if self._queries.answered < self._plan.queries:
            self._crashes.append(f"{self._queries.answered} of {self._plan.queries} queries were answered")

    def _timetable(self) -> list[tuple[float, Callable[[], None]]]:
        """Everything that the faults' thread does, in the order of time."""
        entries: list[tuple[float, Callable[[], None]]] = []
        for step in self._plan.faults:
            entries.append((step.at_seconds, lambda step=step: self._hold(step)))  # type: ignore[misc]
            if step.name == "etcd-restored":
                entries.append((max(1.0, step.at_seconds - COPY_BEFORE_SECONDS), self._faults.control_plane.save_etcd))
        return sorted(entries, key=lambda entry: entry[0])

    def _hold(self, step: Step) -> None:
        """Make a fault, and heal it so long after it was made: that may wait for another one's end. A heal that gave up
        is tried again until the plan is over; then it is ``_heal_all``'s.
        """
        say(str(step))
        self._faults.make(step)
        self._stop.wait(step.hold_seconds)
        end = self._began_at + self._plan.minutes * 60
        while not self._faults.heal(step.number) and time.monotonic() < end:
            if self._stop.wait(HEAL_PAUSE_SECONDS):
                return
        if step.name == "etcd-restored":
            self._adopt()

    def _adopt(self, *options: str) -> None:
        """What an administrator does after a restore. A run that fails is repeated at the end."""
        number = self.history.invoke("administrator", ADOPT, options=list(options))
        command = [COLOCATION, "adopt", "-n", scene.NAMESPACE, "--operator-namespace", cluster.OPERATOR_NAMESPACE]
        command += [*(options or ["--all-namespaces"]), "--yes", "--wait-seconds", str(ADOPT_SECONDS)]
        try:
            said = run(command, timeout_seconds=2 * ADOPT_SECONDS).stdout
        except (CommandFailed, subprocess.TimeoutExpired) as error:
            self.history.note("administrator", FAIL, ADOPT, number, error=str(error)[-1500:])
        else:
            self.history.note("administrator", OK, ADOPT, number, said=said[-1500:])

    def _may_have_lost_objects(self) -> bool:
        """Whether etcd was restored, and everything was not adopted since."""
        everything = {event.number for event in self.history.events if event.name == ADOPT and event.detail == ALL}
        for event in reversed(self.history.events):
            if event.name == ADOPT and event.kind == OK and event.number in everything:
                return False
            if event.name == RESTORED:
                return True
        return False

    def _wait_until(self, at_seconds: float) -> bool:
        """Wait until the plan's time; True: the run ends."""
        return self._stop.wait(max(0.0, self._began_at + at_seconds - time.monotonic()))

    # The end

    def _finish(self) -> None:
        """Heal everything, and wait until all is well, while queries go on."""
        say("all faults end")
        self._heal_all()
        self.history.note("runner", SEEN, "healed")
        deadline, well, shown = time.monotonic() + STABLE_AGAIN_SECONDS, 0, ""
        for look in itertools.count():
            if look % UNDO_LOOKS == 0:
                if self._may_have_lost_objects():
                    self._adopt()
                self._work.undo()
                for table in self._work.to_bring_back() if self._was_restored() else ():
                    self._adopt("--table", table, "--recycled")  # its files may be under a uid that etcd has lost
            problems = self._watch.problems() + [f"table {table} is dropped" for table in self._work.to_bring_back()]
            well = 0 if problems else well + 1
            if well == WELL_LOOKS:
                self.history.note("runner", SEEN, "well")
            if well == WELL_LOOKS or self._crashes or time.monotonic() > deadline:
                return
            if problems and problems[0] != shown:
                shown = problems[0]
                self.history.note("runner", SEEN, "unwell", 0, why=problems)
            time.sleep(3)

    def _heal_all(self) -> None:
        """What could not be healed is in the history, and fails the run."""
        deadline = time.monotonic() + HEAL_AGAIN_SECONDS
        while True:
            try:
                return self._faults.heal_all()
            except DevclusterError as error:
                if time.monotonic() > deadline:
                    return say(f"not all is healed: {error}")
                time.sleep(2)

    def _last_words(self) -> None:
        """All rows of all tables once more, also of those that may be dropped; every file; and what is left over."""
        self._revive(BEGIN_SECONDS)
        self._warm_up()
        self.history.note("runner", SEEN, LAST_WORDS, 0, tables=list(self._work.tables))
        for table in [*self._work.tables, *self._work.binned]:
            self._queries.one("content", [table])
        restored = self._was_restored()
        self._see(LAST_LOOK, "missing", self._watch.last_look)
        self._see(LEFTOVERS, "found", lambda: self._watch.leftovers(restored))

    def _was_restored(self) -> bool:
        return any(event.name == RESTORED for event in self.history.events)

    def _warm_up(self) -> None:
        """Until each table that is there was read: executors come back for a while."""
        deadline, unread = time.monotonic() + WARM_SECONDS, list(self._work.tables)
        while unread and time.monotonic() < deadline:
            answered = self._queries.answered
            if not self._queries.one("content", unread[:1]):
                self._revive(BEGIN_SECONDS)
            if self._queries.answered > answered:
                unread.pop(0)

    def _see(self, name: str, field: str, look: Callable[[], list[str]]) -> None:
        """Note what a look finds; it is repeated while the API server does not answer."""
        deadline = time.monotonic() + LAST_LOOK_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(cluster_view.ApiAway):
                self.history.note("runner", SEEN, name, 0, **{field: look()})
                return
            time.sleep(3)

    def _revive(self, seconds: float) -> None:
        """Start another session unless the present one lives, and stop trying after so long."""
        closing = threading.Event()
        timer = threading.Timer(seconds, closing.set)
        timer.start()
        try:
            self._session.revive(closing)
        finally:
            timer.cancel()  # the process would not end before it

    def _save_logs(self) -> Path:
        """What the pods said, and the dev cluster's own logs."""
        folder = report.FOLDER / f"logs-{self._plan.seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for member in sorted(paths.NODES.glob("node-*")):
            with contextlib.suppress(OSError, shutil.Error):
                shutil.copytree(member / "pod-logs", folder / member.name, ignore_dangling_symlinks=True)
        for words in (["get", "all,ct,cg,cm,events", "-A", "-o", "wide"], ["get", "ct,cg", "-A", "-o", "yaml"]):
            with contextlib.suppress(CommandFailed):
                (folder / f"{words[1][:3]}-{words[-1]}.txt").write_text(run(["kubectl", *words]).stdout)
        return folder


def run_plan(plan: Plan, values: Mapping[str, str] | None = None) -> Ran:
    """Run a plan on the cluster that is up, and say what came of it."""
    return Runner(plan, values).run()
