"""What the API server keeps of the statuses that it is sent: a field that it drops is not sent again with every pass.

CRDs that are older than the operator drop the fields that they lack; an admission webhook of others may change some.
What comes back then differs from what was wanted, so the next pass wants the same write again, for ever.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..model.conditions import APPLY_KINDS
from ..state.objects import Identity

logger = logging.getLogger(__name__)

Path = tuple[str | int, ...]
Leaves = Mapping[Path, object]
MAX_REMEMBERED = 20_000
MAX_NAMED_FIELDS = 5


@dataclass(frozen=True)
class _Answer:
    """``version``: of the object that came back; what of it was ``sent``, and what of these fields it ``holds``."""

    version: str
    sent: Leaves
    holds: Leaves


class StatusAnswers:
    """The last answer for each object whose status did not come back as it was sent, by uid."""

    def __init__(self) -> None:
        self._answers: dict[str, _Answer] = {}
        self._reported: set[frozenset[str]] = set()

    def heard(self, subject: Identity, sent: Mapping[str, object], body: Mapping[str, object]) -> None:
        """Compare the object that came back with the status that was sent."""
        metadata, status = body.get("metadata"), body.get("status")
        version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
        status = status if isinstance(status, Mapping) else {}
        wanted, holds = dict(_leaves(sent)), dict(_leaves({name: status.get(name) for name in sent}))
        self._answers.pop(subject.uid, None)
        if wanted == holds or not isinstance(version, str):
            return
        if len(self._answers) >= MAX_REMEMBERED:
            self._answers.pop(next(iter(self._answers)))
        self._answers[subject.uid] = _Answer(version, wanted, holds)
        self._report(subject, frozenset(_fields(_differing(wanted, holds))))

    def is_needless(self, subject: Identity, status: Mapping[str, object]) -> bool:
        """Whether the object is as it came back, and this status differs from it only in what was sent in vain.

        A field that was dropped is not kept whatever its value is: times in it may be others with every pass.
        """
        answer = self._answers.get(subject.uid)
        if answer is None or answer.version != subject.resource_version:
            return False
        wanted, sent, holds = dict(_leaves(status)), answer.sent, answer.holds
        return all(
            (path in sent and path not in holds) or (path in sent and wanted.get(path) == sent[path])
            or (path not in sent and path not in wanted)
            for path in _differing(wanted, holds)
        )  # fmt: skip

    def _report(self, subject: Identity, fields: frozenset[str]) -> None:
        """Once for each set of fields."""
        if fields not in self._reported and len(self._reported) < MAX_REMEMBERED:
            self._reported.add(fields)
            logger.warning(
                "%s/%s: the API server does not keep what was written to %s: the CRDs are older than this operator "
                "(%s), or a webhook changes it",
                subject.namespace, subject.name, ", ".join(sorted(fields)[:MAX_NAMED_FIELDS]), APPLY_KINDS,
            )  # fmt: skip


def _leaves(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """(path, value) of all that is no object, list or null; an empty list is as good as none."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    elif value is not None:
        yield path, value


def _differing(one: Leaves, other: Leaves) -> Iterator[Path]:
    return (path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def _fields(paths: Iterator[Path]) -> Iterator[str]:
    """Without the indexes of lists."""
    return (".".join(["status", *(part for part in path if isinstance(part, str))]) for path in paths)
