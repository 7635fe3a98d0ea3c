"""What a deletion is decided on, for the agent to check: an order is void once any of it is not true there any more.

An order is void after ``ORDER_VALIDITY_SECONDS`` of the agent's own clock: no wall clock counts, and none runs
arbitrarily late.
"""

from ..model.agent import DeletionProof
from ..state.agent_view import AgentView
from ..state.objects import ObservedTable
from ..state.observation import Observation

ORDER_VALIDITY_SECONDS = 30.0


def proof_of_table(observation: Observation, view: AgentView, table: ObservedTable) -> DeletionProof | None:
    """That files of a table may go, as the agent was last asked about it.

    None while it was not asked about this very table, or is silent: it could not know which files are wanted.
    """
    asked = view.asked.get((table.identity.namespace, table.directory))
    if asked is None or asked.uid != table.identity.uid:
        return None
    return _proof(observation, view, asked.uid, asked.group_uid, asked.map_version)


def proof_of_folder(observation: Observation, view: AgentView, table_uid: str) -> DeletionProof | None:
    """That a folder is of no table, by the agent's last word; None while it is silent."""
    return _proof(observation, view, table_uid, None, 0)


def _proof(
    observation: Observation, view: AgentView, table_uid: str, group_uid: str | None, map_version: int
) -> DeletionProof | None:
    report = view.report
    if report is None or view.answered_at is None or view.silent_since is not None:
        return None
    since_seconds = max(0.0, (observation.now - view.answered_at).total_seconds())
    return DeletionProof(
        instance=report.instance,
        not_after_seconds=report.uptime_seconds + since_seconds + ORDER_VALIDITY_SECONDS,
        term=observation.term,
        table_uid=table_uid,
        group_uid=group_uid,
        map_version=map_version,
    )
