"""What the nodes' agents have reported of themselves and of the tables that they were asked about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from ..model.agent import AgentReport, AskedTable, TableReference, TableReport

TableKey = tuple[str, str]
"""(namespace, directory)."""


@dataclass(frozen=True)
class AgentView:
    """What one node's agent has reported so far.

    ``report``: the node's part of the newest answer (disk, folders, clones, process); its ``tables`` are only those
    that changed. ``tables``: the newest report of each of the ``asked`` tables; the agent has no folder of one that is
    absent. ``answered_at``: None = never. ``silent_since``: None = it answers. ``asked_at``: when the question of
    the newest answer was sent; None = at ``answered_at``.
    """

    report: AgentReport | None = None
    tables: Mapping[TableKey, TableReport] = field(default_factory=dict)
    asked: Mapping[TableKey, AskedTable] = field(default_factory=dict)
    answered_at: datetime | None = None
    silent_since: datetime | None = None
    asked_at: datetime | None = None

    @classmethod
    def of(
        cls,
        report: AgentReport,
        asked: Iterable[AskedTable] | None = None,
        answered_at: datetime | None = None,
        silent_since: datetime | None = None,
        asked_at: datetime | None = None,
    ) -> "AgentView":
        """The view after a full report. ``asked``: None = the tables in the report."""
        tables = {(table.namespace, table.directory): table for table in report.tables}
        if asked is None:
            asked = tuple(_asked_about(table) for table in report.tables)
        return cls(report, tables, {key_of(one.reference): one for one in asked}, answered_at, silent_since, asked_at)

    def is_newer_than(self, moment: datetime) -> bool:
        """Whether the report was asked for after this moment."""
        asked_at = self.asked_at or self.answered_at
        return asked_at is not None and asked_at > moment


def key_of(reference: TableReference) -> TableKey:
    """(namespace, directory) of the table."""
    return reference.namespace, reference.directory


def _asked_about(table: TableReport) -> AskedTable:
    reference = TableReference(namespace=table.namespace, directory=table.directory, manifest=table.manifest)
    return AskedTable(reference=reference, uid="")


class AnsweringAgent(NamedTuple):
    """An agent that can be given orders now. ``report``: the view's."""

    node: str
    url: str
    view: AgentView
    report: AgentReport
