"""Judges what is seen next to rows: verdicts on stability, limits, errors, memory, and the end."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .fault_kinds import error_name, matches
from .history import FAIL, INFO, OK, Event
from .judge_rows import TRESPASS, Ended
from .violations import FaultsInForce, Violation

FALSE_STABLE, NO_CAUSE = "FalseStable", "UnstableWithoutCause"
DRAINED = "drained"
"""What is seen when a drain has ended: the node, and the groups whose maps still name it."""
FALSE_STABLE_GRACE_SECONDS = 60.0
"""So long may a group be called stable while a wanted replica is missing: an agent's sweep (5 s here), a file that has
to be hashed again (the scrub: 30 s here), the operator's grace for silent agents (30 s), and a pass."""
NO_CAUSE_GRACE_SECONDS = 45.0
"""So long may a group say that it is not stable without any cause that we see."""
YOUNG_SECONDS = 90.0
"""A group gets its first map in this time."""
GAP_SECONDS = 15.0
"""Two looks further apart tell nothing of the time between them."""
MOST_CLONES_PER_NODE = 2
REFUSED = re.compile("may not see or change it|Forbidden")
"""What a query of another namespace has to end with."""
WARM_SAMPLES = 3
"""Of a process's memory: it has read what it needs by then, and from the last of them it does not grow by more than"""
MEMORY_GROWTH_BYTES = 96 << 20


@dataclass
class ErrorsJudge:
    """Operations fail only with errors that a fault in force, or other work, allows.

    ``all_is_well``: set at the end, from when on no fault excuses anything.
    """

    faults: FaultsInForce
    violations: list[Violation] = field(default_factory=list)
    allowed: Counter[str] = field(default_factory=Counter)
    all_is_well: bool = False

    def take(self, ended: Ended) -> None:
        """An operation that is over."""
        event, began = ended.event, ended.began
        text = str(event.detail.get("error", ""))
        if event.kind not in (FAIL, INFO) or (began.name == TRESPASS and REFUSED.search(text)):
            return
        in_force = () if self.all_is_well else self.faults.during(began.at_seconds, event.at_seconds)
        names = ended.excuses.union(*(kind.errors for kind in in_force))
        for name in sorted(names):
            if matches(name, text):
                self.allowed[name] += 1
                return
        faults = ", ".join(self.faults.names(began.at_seconds, event.at_seconds)) or "none"
        kind = error_name(text) or "an unknown error"
        said = f"{began.name} ended with {kind}; faults in force: {faults}. It said: {text[:600]}"
        about = began.detail.get("tables") or [began.detail.get("table", "")]
        self.violations.append(Violation("ErrorNotAllowed", event.at_seconds, said, tuple(about), event.number))


@dataclass
class _Spell:
    """Something that holds at each look since ``began``. ``is_said``: of each spell we complain once."""

    began: float
    last: float
    is_said: bool = False


@dataclass
class StabilityJudge:
    """``stable`` is never true while a wanted replica is missing beyond the grace, and never false without a cause."""

    faults: FaultsInForce
    violations: list[Violation] = field(default_factory=list)
    false_stable_seconds: float = 0.0
    _spells: dict[tuple[str, str], _Spell] = field(default_factory=dict)
    _first_seen: dict[str, float] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """A look: ``{"fresh": bool, "trouble": [text], "groups": {name: {stable, reason, message, missing: [text],
        unplaced: [text]}}}``.

        ``fresh``: whether the operator's Lease is; readers call older verdicts unknown. ``trouble``: nodes, agents and
        clones because of which a group may be unstable. ``missing``: wanted replicas that are not whole on a disk that
        can be reached, by our own look at the disks. ``unplaced``: those that the map does not name yet, without which
        a group may be stable or not.
        """
        for name, group in event.detail["groups"].items():
            self._first_seen.setdefault(name, event.at_seconds)
            claims = group["stable"] and event.detail["fresh"]
            self._judge(
                FALSE_STABLE, event, name, bool(claims and group["missing"]), FALSE_STABLE_GRACE_SECONDS,
                ("been called stable", f"there is missing: {'; '.join(group['missing'][:5])}"),
            )  # fmt: skip
            self._judge(
                NO_CAUSE, event, name, not group["stable"] and not self._has_cause(event, name, group),
                NO_CAUSE_GRACE_SECONDS,
                ("not been stable", f"nothing is missing: {group['reason']}: {group['message']}"),
            )  # fmt: skip

    def _has_cause(self, event: Event, name: str, group: dict[str, Any]) -> bool:
        """What is seen, or a fault that holds; of one that is over, only what is seen counts."""
        is_young = event.at_seconds - self._first_seen[name] < YOUNG_SECONDS
        is_seen = bool(group["missing"] or group.get("unplaced") or event.detail.get("trouble"))
        return is_seen or not event.detail["fresh"] or is_young or self.faults.unsettling(event.at_seconds)

    def _judge(
        self, kind: str, event: Event, name: str, holds: bool, grace_seconds: float, said: tuple[str, str]
    ) -> None:
        """``said``: what has lasted longer than the grace, and what stands against it; once for each spell."""
        lasts = self._follow((kind, name), event, holds)
        if lasts is not None and lasts.last - lasts.began > grace_seconds and not lasts.is_said:
            lasts.is_said = True
            text = f"group {name} has {said[0]} for {lasts.last - lasts.began:.0f} s, and {said[1]}"
            self.violations.append(Violation(kind, event.at_seconds, text, (name,)))

    def _follow(self, key: tuple[str, str], event: Event, holds: bool) -> _Spell | None:
        before = self._spells.get(key)
        if not holds:
            self._spells.pop(key, None)
            return None
        if before is None or event.at_seconds - before.last > GAP_SECONDS:
            self._spells[key] = _Spell(event.at_seconds, event.at_seconds)
        else:
            if key[0] == FALSE_STABLE:
                self.false_stable_seconds += event.at_seconds - before.last
            before.last = event.at_seconds
        return self._spells[key]


@dataclass
class LimitsJudge:
    """No node takes more clones at once than the limit, no process grows, no file is read in another's name, no drain
    ends while there are replicas.
    """

    violations: list[Violation] = field(default_factory=list)
    _memory: dict[str, list[int]] = field(default_factory=dict)
    _over: dict[str, float] = field(default_factory=dict)
    _killed: set[str] = field(default_factory=set)

    def take_clones(self, event: Event) -> None:
        """``{"nodes": {node: clone Jobs that are not over}}``. Two looks in a row: a Job ends between two requests."""
        nodes = {node for node, count in event.detail["nodes"].items() if count > MOST_CLONES_PER_NODE}
        for node in nodes & set(self._over):
            count = event.detail["nodes"][node]
            said = f"{count} clones on {node}, {MOST_CLONES_PER_NODE} allowed"
            self.violations.append(Violation("LimitExceeded", event.at_seconds, said, (node,)))
        self._over = dict.fromkeys(nodes, event.at_seconds)

    def take_memory(self, event: Event) -> None:
        """``{"bytes": {process: resident bytes}, "killed": [container that took more memory than it may]}``."""
        for container in set(event.detail.get("killed", ())) - self._killed:
            self._killed.add(container)
            self.violations.append(Violation("OutOfMemory", event.at_seconds, f"{container} was ended by the kernel"))
        for process, size in event.detail["bytes"].items():
            seen = self._memory.setdefault(process, [])
            seen.append(int(size))
            warm = max(seen[:WARM_SAMPLES])
            if int(size) > warm + MEMORY_GROWTH_BYTES:
                said = f"{process} grew from {warm >> 20} to {int(size) >> 20} MiB"
                self.violations.append(Violation("MemoryGrows", event.at_seconds, said, (process,)))
                seen.clear()

    def take_drain(self, event: Event) -> None:
        """``{"node": name, "groups": [groups whose map names it]}`` when a drain has ended: nothing may be left."""
        if groups := event.detail["groups"]:
            said = f"the drain of {event.detail['node']} ended while groups {', '.join(groups)} had replicas there"
            self.violations.append(Violation("DrainedTooEarly", event.at_seconds, said, tuple(groups)))

    def take_query(self, ended: Ended) -> None:
        """Locations of the files that a query read: ``{table: [namespace, …]}`` must be the table's own. A query of a
        namespace in which its account may do nothing is not answered at all.
        """
        if ended.began.name == TRESPASS and ended.event.kind == OK:
            said = f"a query of namespace {ended.began.detail['namespace']}, in which it may do nothing, was answered"
            self.violations.append(Violation("ForeignFiles", ended.event.at_seconds, said))
        for table, namespaces in ended.event.detail.get("namespaces", {}).items():
            wrong = [one for one in namespaces if one != ended.event.detail.get("namespace", one)]
            if wrong:
                said = f"a query of {table} read files of namespace {wrong[0]}"
                self.violations.append(Violation("ForeignFiles", ended.event.at_seconds, said, (table,)))
