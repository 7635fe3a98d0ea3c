"""Whether `status.stable` is true: what it claims against what disks, nodes and maps are, moment by moment.

The graces are the stated ones: an agent may be silent for a while, a commit takes a while until it is known to lie
everywhere, a pass takes its interval. Beyond them a verdict must be right in both directions, and it must not flap: it
turns to false only where something was wrong.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from colocation.kube.api import GROUPS, NODES
from colocation.model.conditions import Reason
from colocation.model.names import ANNOTATION_MARKED_UNSTABLE, LEASE_DURATION_SECONDS

from .disks import File

if TYPE_CHECKING:
    from .operators import SimulatedOperator
    from .world import World

COMMIT_GRACE_SECONDS = 30.0
FALSE_TRUE_SECONDS = 60.0
"""The agent's grace of 30 s, the question that is not answered (10 s), requests that fail, and some passes."""
FALSE_FALSE_SECONDS = 45.0
NEWS_SECONDS = 60.0
"""A verdict that turns to false must have had a cause within this time."""


@dataclass
class _Truth:
    """Of one group. ``problems``: since when there is each, but for files that have just been committed.

    ``good_since``: since when there is none at all; ``bad_at``: when there last was any.
    """

    problems: dict[str, float] = field(default_factory=dict)
    good_since: float | None = None
    bad_at: float = 0.0


class Verdicts:
    """Follows every group.

    ``hampered_at``: when an operator last could not do its work, or began it: verdicts may be late. ``confused_at``:
    when it last was given what had been before, or acted on that: verdicts may turn. ``news_delay_seconds``: how much
    longer news may take, as watches lose events until the next full list. ``_away_at``: when each node last was away,
    also before it came into a map: a bucket without files moves to a node whose silence is still within its grace.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._truths: dict[str, _Truth] = {}
        self._away_at: dict[str, float] = {}
        self._said: dict[str, bool] = {}
        self._leader: object = None
        self._renewed_at: float | None = None
        self.operators: Sequence[SimulatedOperator] = ()
        self.hampered_at = 0.0
        self.confused_at = 0.0
        self.news_delay_seconds = 0.0

    def hamper(self) -> None:
        """Something keeps operators from their work at this moment."""
        self.hampered_at = self._world.loop.elapsed

    def confuse(self) -> None:
        """An operator takes what has been for what is, at this moment."""
        self.hampered_at = self.confused_at = self._world.loop.elapsed

    def after_lease_write(self, body: dict[str, Any]) -> None:
        """The Lease was written: its holder lives, or is a new one."""
        self._renewed_at = self._world.loop.elapsed
        leader = (body["spec"].get("holderIdentity"), body["spec"].get("leaseTransitions"))
        if leader != self._leader:
            self._leader = leader
            self.hamper()

    def after_restore(self) -> None:
        """etcd is as it was some minutes ago: so are verdicts, which no one believes before there is a new leader."""
        self._truths.clear()
        self._said.clear()
        self._renewed_at = float("-inf")
        self.confuse()

    def look(self) -> None:
        """Compare what the groups say with what is so, now."""
        now = self._world.loop.elapsed
        if not self._is_believed() or any(one.is_leading and one.faults.away for one in self.operators):
            self.hamper()
        self._away_at |= {node: now for node in self._world.machines if self._problem_of_node(node)}
        for body in self._world.api.peek(GROUPS):
            uid = body["metadata"]["uid"]
            truth = self._truths.setdefault(uid, _Truth())
            self._update(truth, body, now)
            stable = body.get("status", {}).get("stable")
            if stable and truth.problems:
                why, since = min(truth.problems.items(), key=lambda item: item[1])
                wrong = now - max(since, self.hampered_at)
                self._world.checks.require(
                    wrong <= FALSE_TRUE_SECONDS + self.news_delay_seconds,
                    f"group {body['metadata']['name']} is called stable for {wrong:.0f} s: {why}",
                )
            if stable is False and truth.good_since is not None:
                wrong = now - max(truth.good_since, self._last_away_at(body), self.hampered_at)
                status = body["status"]
                self._world.checks.require(
                    wrong <= FALSE_FALSE_SECONDS + self.news_delay_seconds,
                    f"group {body['metadata']['name']} is called unstable ({status.get('reason')}: "
                    f"{status.get('unstableBuckets')}) for {wrong:.0f} s, and nothing is wrong",
                )

    def after_group_write(self, body: dict[str, Any]) -> None:
        """A group was written: a verdict that turns to false has had a cause."""
        uid, stable = body["metadata"]["uid"], body.get("status", {}).get("stable")
        before = self._said.get(uid)
        if stable is not None:
            self._said[uid] = stable
        truth = self._truths.get(uid)
        if before and stable is False and truth is not None and not any(self._problems(body, with_all_files=True)):
            now = self._world.loop.elapsed
            quiet = now - max(truth.bad_at, self._last_away_at(body), self.confused_at)
            status = body["status"]
            self._world.checks.require(
                quiet <= NEWS_SECONDS + self.news_delay_seconds,
                f"group {body['metadata']['name']} is called unstable ({status.get('reason')}: "
                f"{status.get('unstableBuckets')}) after {quiet:.0f} s in which nothing was wrong",
            )
        if truth is not None:
            self._update(truth, body, self._world.loop.elapsed)  # a map may be out of date when it is written

    def _update(self, truth: _Truth, body: dict[str, Any], now: float) -> None:
        truth.problems = {one: truth.problems.get(one, now) for one in sorted(set(self._problems(body)))}
        if any(self._problems(body, with_all_files=True)):
            truth.good_since, truth.bad_at = None, now
        elif truth.good_since is None:
            truth.good_since = now

    def _last_away_at(self, body: dict[str, Any]) -> float:
        """When a node of the group's map was last away."""
        rows = body.get("status", {}).get("backendsPerBucketSeq") or ()
        return max((self._away_at.get(node, 0.0) for row in rows for node in row), default=0.0)

    def _problems(self, body: dict[str, Any], with_all_files: bool = False) -> Iterator[str]:
        """What is wrong with the group's replicas now.

        Files that have just been committed need not be everywhere, and those of tables whose status is spoiled nowhere:
        they are a reason to call the group unstable, and none not to call it stable.
        """
        metadata = body["metadata"]
        rows = body.get("status", {}).get("backendsPerBucketSeq")
        if not rows:
            yield "it has no map"
            return
        if ANNOTATION_MARKED_UNSTABLE in metadata.get("annotations", {}):
            yield "it is marked"
        if not all(rows):
            yield "a bucket has no node"
        nodes = {node for row in rows for node in row}
        away = {node: problem for node in nodes if (problem := self._problem_of_node(node))}
        yield from away.values()
        for table in self._world.tables_of((metadata["namespace"], metadata["name"]), with_all_files):
            if not with_all_files and self._has_lost_its_manifest(table):
                continue
            yield from self._nodes_without_manifest(table, rows, away, with_all_files)
            for file in self._wanted(table, with_all_files and is_strict(body)):
                if with_all_files or not self._is_new(file):
                    row = rows[file.bucket] if file.bucket < len(rows) else ()
                    here = [self._world.machines[node].disk for node in row if node not in away]
                    yield from (f"{disk.node} has no whole {file}" for disk in here if not disk.holds(file))

    def _has_lost_its_manifest(self, table: dict[str, Any]) -> bool:
        """Whether no node has the manifest: after a restore of etcd it may be in a folder of another uid. The table
        reports it (ManifestMissing), and does not make its group unstable.
        """
        nodes = self._world.machines
        has_rows = bool(self._world.committed(table))
        return self._world.loses_etcd and has_rows and not any(self._world.has_manifest(one, table) for one in nodes)

    def _nodes_without_manifest(
        self, table: dict[str, Any], rows: list[list[str]], away: Collection[str], with_new: bool
    ) -> Iterator[str]:
        """A node that did not get the manifest cannot tell which files are to be read."""
        committed_at = self._world.committed_at.get(table["metadata"]["uid"], 0.0)
        if not with_new and self._world.loop.elapsed - committed_at <= COMMIT_GRACE_SECONDS:
            return
        buckets = {file.bucket for file in self._world.committed(table) if file.bucket < len(rows)}
        for node in sorted({node for bucket in buckets for node in rows[bucket]}.difference(away)):
            if not self._world.has_manifest(node, table):
                yield f"{node} has no manifest of {table['metadata']['name']}"

    def _wanted(self, table: dict[str, Any], with_retained: bool) -> Iterator[File]:
        """What a replica of the map needs; one that strict balancing moves has to get retained snapshots, too."""
        yield from self._world.committed(table)
        if with_retained:
            yield from self._world.retained(table)

    def _is_new(self, file: File) -> bool:
        """Whether it was committed so lately that no one need know yet where it is, and no fault has taken it since."""
        committed_at = self._world.commits.get(file, 0.0)
        is_new = self._world.loop.elapsed - committed_at <= COMMIT_GRACE_SECONDS
        return is_new and self._world.losses.get(file, 0.0) <= committed_at

    def _problem_of_node(self, node: str) -> str | None:
        machine = self._world.machines.get(node)
        if machine is None:
            return f"{node} is gone"
        if not machine.is_up:
            return f"{node} is down"
        if machine.disk.fault in (Reason.DISK_MISSING, Reason.DISK_FAILING):
            return f"the disk of {node} is sick: {machine.disk.fault}"
        if self._world.has_other_disk(node):
            return f"{node} has another disk"
        shown = self._world.api.find(NODES, "", node)
        if shown is None or shown["status"]["conditions"][0]["status"] != "True":
            return f"{node} is not ready"
        if self._world.network.is_cut(node):
            return f"{node} cannot be reached"
        return None

    def _is_believed(self) -> bool:
        """Whether readers whose clocks go right believe verdicts now: they do until the Lease ends, if there is one."""
        age = 0.0 if self._renewed_at is None else self._world.loop.elapsed - self._renewed_at
        return age <= LEASE_DURATION_SECONDS


def is_strict(group: dict[str, Any]) -> bool:
    """Whether the group's map goes ahead of its data."""
    return bool(group["spec"].get("balancing", {}).get("strict"))
