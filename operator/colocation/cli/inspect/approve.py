"""``approve``: lets the moves of a group's proposal be made.

The approval is an annotation of the group that names the proposal's id, so it needs the right to change the group, and
the API server's audit log has who gave it.
"""

import click

from ...model.group import ColocationGroupStatus, Proposal
from ...model.names import ANNOTATION_APPROVED_PROPOSAL
from ...model.salvage import salvage
from ..cluster import Cluster
from ..errors import CommandFailed
from ..terminal.completed_names import complete_group
from ..terminal.options import Target, cluster_options, output_option
from ..terminal.output import Format, columns, size, write

MOVES = ["BUCKET", "FROM", "TO", "SIZE"]


@click.command()
@click.argument("group", shell_complete=complete_group)
@click.option("--proposal", "wanted", default=None, help="Id from `colocation show`; default: the current proposal.")
@cluster_options
@output_option
def approve(group: str, wanted: str | None, target: Target, output: Format) -> None:
    """Approve the proposed moves of GROUP.

    A group has a proposal if its spec.balancing.approval is manual. With --proposal the command approves only that
    proposal, and fails if another one has replaced it.
    """
    cluster = target.open()
    proposal = _proposal(cluster, group, wanted)
    cluster.annotate_group(cluster.namespace, group, ANNOTATION_APPROVED_PROPOSAL, proposal.id)
    text = (
        f"proposal {proposal.id} of group {cluster.namespace}/{group} is approved; watch it: "
        f"colocation show {group} -n {cluster.namespace}"
    )
    approved = proposal.model_copy(update={"approved": True})
    write(approved.to_json_dict(), f"{render_moves(proposal)}\n\n{text}", output)


def _proposal(cluster: Cluster, group: str, wanted: str | None) -> Proposal:
    status, _ = salvage(ColocationGroupStatus, cluster.group(group).get("status"))
    name, proposal = f"group {cluster.namespace}/{group}", status.proposal
    chosen = f"{group} -n {cluster.namespace}"
    if proposal is None or not proposal.is_of((cluster.namespace, group)):
        raise CommandFailed(f"{name} has no proposal to approve; `colocation plan {chosen}` shows its moves")
    if wanted not in (None, proposal.id):
        raise CommandFailed(
            f"{name} has no proposal {wanted}; its current proposal is {proposal.id}: read it with "
            f"`colocation show {chosen}`, then approve that one"
        )
    return proposal


def render_moves(proposal: Proposal) -> str:
    """The moves of a proposal as columns."""
    rows = [[move.bucket, move.source, move.to, size(move.bytes)] for move in proposal.moves]
    return columns(MOVES, rows)
