"""Checks that every request passes."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from colocation.model.agent import AskedTable
from colocation.model.names import TOKEN_AUDIENCE, node_audience
from colocation.model.table_manifest import bucket_of_file_name
from colocation.storage.paths import TablePath

from .authorizer import Access, Authorizer, Identity
from .conversation import Question
from .http_messages import Refusal
from .node_state import NodeState

POD_NAME = "authentication.kubernetes.io/pod-name"
"""In ``extra`` of identities whose token is bound to a pod."""

_CLONE_POD = re.compile(r"clone-(.{8})-b(\d{5})-[0-9a-f]{8}-[0-9a-z]+")
"""Of ``manifests.clone_job.clone_job_name``, and what the Job controller appends for the pod."""

RETRY_AFTER_SECONDS = 2
"""Callers that heed it come back when the next process may listen; the others have a back-off of their own."""

OPERATOR_VERBS = frozenset({"list", "delete"})
"""Rights over what many tenants have. Tokens for them name one node: what one agent sees is worth nothing elsewhere."""

_BEARER = "Bearer "


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


class Gate:
    """The checks of one agent. Everything but a valid token and right gets an answer that tells nothing else."""

    def __init__(self, node: NodeState, authorizer: Authorizer) -> None:
        self._node = node
        self._authorizer = authorizer

    async def identity(self, authorization: str, peer: str) -> Identity:
        """Whose token the header ``Authorization`` of a request from the address ``peer`` has.

        Raises:
            Refusal: 401.
            AuthenticationUnavailable: the API server could not be asked.
        """
        identity = None
        if authorization.startswith(_BEARER) and authorization.isascii():  # no token has another character
            identity = await self._authorizer.identify(authorization.removeprefix(_BEARER).strip(), peer)
        if identity is None:
            raise Refusal(
                401,
                "Unauthorized",
                f"send Authorization: Bearer <ServiceAccount token with audience {TOKEN_AUDIENCE}, or for orders "
                f"{node_audience(self._node.settings.node)}, that has not ended>",
                {"WWW-Authenticate": 'Bearer realm="colocation.dev"'},
            )
        return identity

    async def check(self, identity: Identity, verb: str, table: TablePath) -> None:
        """Refuse who may not do this with a table's data; errors as for ``check_access``."""
        await self.check_access(identity, Access(verb, table.namespace, table.table))

    async def check_access(self, identity: Identity, access: Access) -> None:
        """Refuse who has not the right, or shows a token for it that other nodes' agents take, too.

        Raises:
            Refusal: 403.
            AuthenticationUnavailable: the API server could not be asked.
        """
        if not await self._authorizer.may(identity, access):
            raise Refusal(403, "Forbidden", _forbidden_message(identity, access))
        if access.verb in OPERATOR_VERBS and not identity.is_for_this_node:
            message = (
                f"{identity.user} may {access.verb}, but not by a token that other nodes' agents take, too; "
                f"ask the API server for one with the audience {node_audience(self._node.settings.node)}"
            )
            raise Refusal(403, "WrongAudience", message)

    def is_clone(self, identity: Identity) -> bool:
        """Whether it is the account of clone Jobs, each of which reads what it is for and nothing else."""
        return identity.user == self._node.settings.clone_account

    def check_clone(self, identity: Identity, table: TablePath, paths: Iterable[str]) -> None:
        """Refuse what a clone Job is not for, if it is one; see ``clone_scope``.

        Raises:
            Refusal: 403, 503.
        """
        if self.is_clone(identity):
            check_clone_read(identity, self._node.conversation.question, table, paths)

    def check_node(self, meant: str | None) -> None:
        """Refuse what is for another node: a file must not count as held there when it came here.

        Raises:
            Refusal: 421.
        """
        if meant not in (None, self._node.settings.node):
            here = self._node.settings.node
            message = f"this is the agent of node {here}, not of {meant}; look up that node's address again"
            raise Refusal(421, "WrongNode", message)

    def stopping(self) -> Refusal:
        """For callers to come back: by then the next process listens at the same address."""
        message = f"the agent of node {self._node.settings.node} is being stopped; ask again, or ask another replica"
        return Refusal(503, "Stopping", message, {"Retry-After": str(RETRY_AFTER_SECONDS)})


def _forbidden_message(identity: Identity, access: Access) -> str:
    place = f"{access.namespace}/{access.table}" if access.namespace else "all namespaces"
    return (
        f"{identity.user} may not {access.verb} colocatedtables/data (group colocation.dev) of {place}; "
        "grant it by a Role and a RoleBinding"
    )
