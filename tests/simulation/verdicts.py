"""Whether `status.stable` is true: what it says against what disks, nodes and maps are, moment by moment.

The graces are the stated ones: an agent may be silent for a while, a commit takes a while until it is known to lie
everywhere, a pass takes its interval. Beyond them a verdict must be right in both directions, and it must not flap: it
turns to false only where something was wrong.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colocation.kube.api import GROUPS, NODES
from colocation.model.names import ANNOTATION_MARKED_UNSTABLE, LEASE_DURATION_SECONDS

if TYPE_CHECKING:
    from .world import World

COMMIT_GRACE_SECONDS = 30.0
FALSE_TRUE_SECONDS = 75.0
"""The agent's grace of 30 s, the question that is not answered (10 s), requests that fail, and some passes."""
FALSE_FALSE_SECONDS = 75.0
NEWS_SECONDS = 60.0
"""A verdict that turns to false must have had a cause within this time."""


@dataclass
class _Truth:
    """Of one group. ``good_since`` and ``bad_since``: since when it is so, without a break; ``bad_at``: when last."""

    good_since: float | None = None
    bad_since: float | None = None
    bad_at: float = 0.0
    why: str = ""


class Verdicts:
    """Follows every group.

    ``hampered_at``: when an operator last could not do its work, or began it: verdicts may be late. ``confused_at``: when
    it last was told what had been before, or acted on that: verdicts may turn. ``news_delay_seconds``: how much longer
    news may take, as watches lose events until the next full list.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._truths: dict[str, _Truth] = {}
        self._said: dict[str, bool] = {}
        self._leader: object = None
        self._renewed_at: float | None = None
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

    def look(self) -> None:
        """Compare what the groups say with what is so, now."""
        now = self._world.loop.elapsed
        if not self._is_believed():
            self.hamper()
        for body in self._world.api.peek(GROUPS):
            uid = body["metadata"]["uid"]
            truth = self._truths.setdefault(uid, _Truth())
            self._update(truth, self._problem(body), now)
            stable = body.get("status", {}).get("stable")
            if stable and truth.bad_since is not None:
                wrong = now - max(truth.bad_since, self.hampered_at)
                name = body["metadata"]["name"]
                self._world.checks.require(
                    wrong <= FALSE_TRUE_SECONDS + self.news_delay_seconds, f"group {name} is called stable for {wrong:.0f} s: {truth.why}"
                )
            if stable is False and truth.good_since is not None:
                wrong = now - max(truth.good_since, self.hampered_at)
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
        if before and stable is False and truth is not None and self._problem(body) is None:
            now = self._world.loop.elapsed
            quiet = now - max(truth.bad_at, self.confused_at)
            status = body["status"]
            self._world.checks.require(
                quiet <= NEWS_SECONDS + self.news_delay_seconds,
                f"group {body['metadata']['name']} is called unstable ({status.get('reason')}: "
                f"{status.get('unstableBuckets')}) after {quiet:.0f} s in which nothing was wrong",
            )

    @staticmethod
    def _update(truth: _Truth, problem: str | None, now: float) -> None:
        if problem is None:
            truth.good_since = now if truth.good_since is None else truth.good_since
            truth.bad_since = None
        else:
            truth.bad_since = now if truth.bad_since is None else truth.bad_since
            truth.good_since, truth.bad_at, truth.why = None, now, problem

    def _problem(self, body: dict[str, Any]) -> str | None:
        """What is wrong with the group's replicas now; None when nothing is, or only what has just been committed."""
        world, metadata = self._world, body["metadata"]
        rows = body.get("status", {}).get("backendsPerBucketSeq")
        if not rows:
            return "it has no map"
        if ANNOTATION_MARKED_UNSTABLE in metadata.get("annotations", {}):
            return "it is marked"
        for node in {node for row in rows for node in row}:
            problem = self._problem_of_node(node)
            if problem:
                return problem
        if not all(rows):
            return "a bucket has no node"
        if self._world.api.find(GROUPS, metadata["namespace"], metadata["name"]) is None:
            return "it is gone"
        for table in world.tables_of((metadata["namespace"], metadata["name"])):
            for file in world.committed(table):
                committed_at = world.commits.get(file, 0.0)
                is_new = world.loop.elapsed - committed_at <= COMMIT_GRACE_SECONDS
                if is_new and world.losses.get(file, 0.0) <= committed_at:
                    continue
                row = rows[file.bucket] if file.bucket < len(rows) else ()
                for node in row:
                    if not world.machines[node].disk.holds(file):
                        return f"{node} has no whole {file}"
        return None

    def _problem_of_node(self, node: str) -> str | None:
        machine = self._world.machines.get(node)
        if machine is None:
            return f"{node} is gone"
        if not machine.is_up:
            return f"{node} is down"
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
