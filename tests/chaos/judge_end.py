"""Judges the end: all is well within the bound, every table is read once more, and nothing is left over."""

from collections import Counter
from dataclasses import dataclass, field

from .history import FAIL, OK, Event
from .judge_rows import TRESPASS, Ended
from .violations import HEAL, Violation

STABLE_AGAIN_SECONDS = 420.0
"""After the last fault was healed, everything is well within this time."""
LAST_WORDS, LAST_LOOK, LEFTOVERS = "last-words", "last-look", "leftovers"
NAMES = ("healed", "unwell", "well", LAST_WORDS, LAST_LOOK, LEFTOVERS)


MOST_IN_VAIN = 5
"""So often at most may users try a thing before it succeeds for the first time."""


@dataclass
class ProgressJudge:
    """What users do succeeds, too: a system that refuses all of it would lose nothing."""

    violations: list[Violation] = field(default_factory=list)
    _tried: Counter[str] = field(default_factory=Counter)
    _done: Counter[str] = field(default_factory=Counter)

    def take(self, ended: Ended) -> None:
        """An operation that is over."""
        if ended.began.name == TRESPASS:
            return
        name = "submit" if ended.began.detail.get("submitted") else ended.began.name
        self._tried[name] += 1
        self._done[name] += ended.event.kind == OK

    def finish(self, at_seconds: float) -> None:
        """The history is over."""
        for name, times in sorted(self._tried.items()):
            if times > MOST_IN_VAIN and not self._done[name]:
                said = f"{name} was tried {times} times, and never succeeded"
                self.violations.append(Violation("NothingDone", at_seconds, said))


@dataclass
class EndJudge:
    """After the last fault is healed everything is well within the bound; what then has to be seen, was seen."""

    violations: list[Violation] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    _seen: dict[str, float] = field(default_factory=dict)
    _last_word: str = ""
    _missing: list[str] = field(default_factory=list)
    _unread: set[str] = field(default_factory=set)
    _unhealed: dict[int, str] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """``healed``; ``unwell`` (``{"why": [text]}``); ``well``; ``last-words`` (``{"tables": [name]}``: of those that
        are there, each is read from now on); ``last-look`` (``{"missing": [text]}``); ``leftovers``
        (``{"found": [text]}``).
        """
        self._seen[event.name] = event.at_seconds
        if event.name == "unwell":
            self._last_word = "; ".join(event.detail["why"][:5])
        elif event.name == LAST_WORDS:
            self._unread = set(event.detail["tables"])
        elif event.name == LAST_LOOK:
            self._missing = list(event.detail["missing"])
        elif event.name == LEFTOVERS:
            self.leftovers = list(event.detail["found"])

    def take_heal(self, event: Event) -> None:
        """A fault was healed, or could not be: ``{"fault": number, "name": its name}``, ``why`` not."""
        if event.name == HEAL and event.kind == OK:
            self._unhealed.pop(int(event.detail["fault"]), None)
        elif event.name == HEAL and event.kind == FAIL:
            self._unhealed[int(event.detail["fault"])] = f"{event.detail['name']}: {event.detail['why']}"

    def take_query(self, ended: Ended) -> None:
        """After the last words each table's rows are read, all of them."""
        if ended.event.kind == OK and LAST_WORDS in self._seen and ended.began.detail["query"] == "content":
            self._unread -= set(ended.began.detail["tables"])

    def finish(self, at_seconds: float) -> None:
        """The history is over."""
        for why in self._unhealed.values():
            self._say("NotHealed", at_seconds, why)
        if "healed" not in self._seen:
            self._say("NotHealed", at_seconds, "the run ended before its faults were healed")
        elif self._is_well_in_time(at_seconds):
            self._judge_last_words(at_seconds)
        if self.leftovers:
            self._say("Leftovers", self._seen[LEFTOVERS], "; ".join(self.leftovers[:10]))

    def _is_well_in_time(self, at_seconds: float) -> bool:
        lasted = self._seen.get("well", at_seconds) - self._seen["healed"]
        if "well" in self._seen and lasted <= STABLE_AGAIN_SECONDS:
            return True
        said = "well only" if "well" in self._seen else "not well"
        self._say("NotStableAgain", at_seconds, f"{said} {lasted:.0f} s after all was healed: {self._last_word}")
        return False

    def _judge_last_words(self, at_seconds: float) -> None:
        for name in (LAST_WORDS, LAST_LOOK, LEFTOVERS):
            if name not in self._seen:
                self._say("NotProved", at_seconds, f"the run ended without its {name}")
        for table in sorted(self._unread):
            self._say("NotProved", at_seconds, f"no query could read table {table} when all was well")
        if self._missing:
            said = f"all was said to be well, and there is missing: {'; '.join(self._missing[:5])}"
            self._say("FalseStable", self._seen[LAST_LOOK], said)

    def _say(self, check: str, at_seconds: float, message: str) -> None:
        self.violations.append(Violation(check, at_seconds, message))
