"""What a clone Job may read: its bucket's files and the manifests, of the tables that its group has.

All clone Jobs share one account, and no rule of RBAC can say which tables a Job is for. Its pod's name can: it follows
from group, bucket and target, the API server puts it into the token when the kubelet asks for one, and TokenReview
tells it. A node's kubelet gets such tokens for pods that are bound to the node, and for no others.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from colocation.model.agent import AskedTable
from colocation.model.table_manifest import bucket_of_file_name
from colocation.storage.paths import TablePath

from .authorizer import Identity
from .errors import Refusal
from .question import Question

POD_NAME = "authentication.kubernetes.io/pod-name"
"""In ``extra`` of identities whose token is bound to a pod."""
RETRY_AFTER_SECONDS = 2

_CLONE_POD = re.compile(r"clone-(.{8})-b(\d{5})-[0-9a-f]{8}-[0-9a-z]+")
"""Of ``manifests.clone_job.clone_job_name``, and what the Job controller appends for the pod."""


class CloneScope(NamedTuple):
    """``uid_start``: 8 characters of the uid of the group, or of the table that moves to another group."""

    uid_start: str
    bucket: int

    def has(self, table: AskedTable) -> bool:
        """Whether the Job is for this table."""
        return any(uid.startswith(self.uid_start) for uid in (table.group_uid or "", table.uid))

    def reads(self, path: str) -> bool:
        """Whether the Job is for this file of one of its tables."""
        return not path.startswith("data/") or bucket_of_file_name(path) == self.bucket


def clone_scope(identity: Identity) -> CloneScope | None:
    """What the identity's pod is for; None when its token is not bound to a clone Job's pod."""
    names = dict(identity.extra).get(POD_NAME, ())
    match = _CLONE_POD.fullmatch(names[0]) if len(names) == 1 else None
    return CloneScope(match[1], int(match[2])) if match else None


def check_clone_read(
    identity: Identity, question: Question | None, table: TablePath, paths: Iterable[str] = ()
) -> None:
    """Let a clone Job read what it is for.

    Args:
        identity: of the clones' account.
        question: the operator's newest: it tells whose tables are whose.
        table: the one that is read.
        paths: the files of it.

    Raises:
        Refusal: 403, it is for something else; 503, the operator has not asked this agent yet.
    """
    scope = clone_scope(identity)
    if scope is None:
        raise Refusal(403, "Forbidden", f"{identity.user} reads by tokens that are bound to a clone Job's pod only")
    if question is None:
        message = "the operator has not asked this agent yet, so it is not known whose tables are here; ask again"
        raise Refusal(503, "NotAskedYet", message, {"Retry-After": str(RETRY_AFTER_SECONDS)})
    asked = question.tables.get(str(table))
    if asked is None or not scope.has(asked) or not all(map(scope.reads, paths)):
        message = (
            f"{identity.user} may read bucket {scope.bucket} of the tables of group {scope.uid_start}… and their "
            "manifests, as its pod's name says, and nothing else"
        )
        raise Refusal(403, "Forbidden", message)
