"""The checks that every request passes: who calls, whether they may, and whether they meant this agent."""

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
"""The name from ``manifests.clone_job.clone_job_name``, and the Job controller's suffix."""

RETRY_AFTER_SECONDS = 2
"""By then the next process may listen; callers that ignore it have a back-off of their own."""

OPERATOR_VERBS = frozenset({"list", "delete"})
"""Rights on many tenants' data. Tokens for them name one node, so one that leaks from an agent is useless elsewhere."""

_BEARER = "Bearer "


class CloneScope(NamedTuple):
    """What a clone Job may read: its bucket's files and the manifests, of its group's tables.

    All clone Jobs share one account, and RBAC cannot tell which tables a Job is for. Its pod's name can: it follows
    from group, bucket and target, the API server puts it into the token that the kubelet requests, and TokenReview
    returns it. A node's kubelet gets such tokens only for pods that are bound to the node.

    ``uid_start``: first 8 characters of the uid of the group, or of the table that moves to another group.
    """

    uid_start: str
    bucket: int

    def has(self, table: AskedTable) -> bool:
        """Whether the Job is for this table."""
        return any(uid.startswith(self.uid_start) for uid in (table.group_uid or "", table.uid))

    def reads(self, path: str) -> bool:
        """Whether the Job is for this file of one of its tables."""
        return not path.startswith("data/") or bucket_of_file_name(path) == self.bucket


def clone_scope(identity: Identity) -> CloneScope | None:
    """The scope of the identity's pod; None if its token is not bound to a clone Job's pod."""
    names = dict(identity.extra).get(POD_NAME, ())
    match = _CLONE_POD.fullmatch(names[0]) if len(names) == 1 else None
    return CloneScope(match[1], int(match[2])) if match else None


def check_clone_read(
    identity: Identity, question: Question | None, table: TablePath, paths: Iterable[str] = ()
) -> None:
    """Refuse a clone Job what is outside its scope.

    Args:
        identity: of the clones' account.
        question: the operator's newest, which names the tables' groups.
        table: the one to read.
        paths: its files to read.

    Raises:
        Refusal: 403, outside the scope; 503, the operator has not asked this agent yet.
    """
    scope = clone_scope(identity)
    if scope is None:
        raise Refusal(403, "Forbidden", f"{identity.user} reads by tokens that are bound to a clone Job's pod only")
    if question is None:
        message = "the operator has not asked this agent yet, so the groups of its tables are unknown; ask again"
        raise Refusal(503, "NotAskedYet", message, {"Retry-After": str(RETRY_AFTER_SECONDS)})
    asked = question.tables.get(str(table))
    if asked is None or not scope.has(asked) or not all(map(scope.reads, paths)):
        message = (
            f"{identity.user} may read bucket {scope.bucket} of the tables of group {scope.uid_start}… and their "
            "manifests, as its pod is named, and nothing else"
        )
        raise Refusal(403, "Forbidden", message)


class Gate:
    """The checks of one agent. Without a valid token and right, an answer reveals nothing else."""

    def __init__(self, node: NodeState, authorizer: Authorizer) -> None:
        self._node = node
        self._authorizer = authorizer

    async def identity(self, authorization: str, peer: str) -> Identity:
        """The owner of the token in the ``Authorization`` header of a request from the address ``peer``.

        Raises:
            Refusal: 401.
            AuthenticationUnavailable: the API server could not be asked.
        """
        identity = None
        if authorization.startswith(_BEARER) and authorization.isascii():  # tokens are ASCII
            identity = await self._authorizer.identify(authorization.removeprefix(_BEARER).strip(), peer)
        if identity is None:
            raise Refusal(
                401,
                "Unauthorized",
                f"send Authorization: Bearer <ServiceAccount token with audience {TOKEN_AUDIENCE}, or for orders "
                f"{node_audience(self._node.settings.node)}, that has not expired>",
                {"WWW-Authenticate": 'Bearer realm="colocation.dev"'},
            )
        return identity

    async def check(self, identity: Identity, verb: str, table: TablePath) -> None:
        """Check a right on a table's data; errors as for ``check_access``."""
        await self.check_access(identity, Access(verb, table.namespace, table.table))

    async def check_access(self, identity: Identity, access: Access) -> None:
        """Check that the caller has the right, and for operator's verbs a token that only this node's agent accepts.

        Raises:
            Refusal: 403.
            AuthenticationUnavailable: the API server could not be asked.
        """
        if not await self._authorizer.may(identity, access):
            raise Refusal(403, "Forbidden", _forbidden_message(identity, access))
        if access.verb in OPERATOR_VERBS and not identity.is_for_this_node:
            message = (
                f"{identity.user} may {access.verb}, but not by a token that other nodes' agents accept; "
                f"ask the API server for one with the audience {node_audience(self._node.settings.node)}"
            )
            raise Refusal(403, "WrongAudience", message)

    def is_clone(self, identity: Identity) -> bool:
        """Whether it is the account of clone Jobs, which may read only what their Job is for."""
        return identity.user == self._node.settings.clone_account

    def check_clone(self, identity: Identity, table: TablePath, paths: Iterable[str]) -> None:
        """Refuse a clone Job what is outside its scope; see ``CloneScope``.

        Raises:
            Refusal: 403, 503.
        """
        if self.is_clone(identity):
            check_clone_read(identity, self._node.conversation.question, table, paths)

    def check_node(self, meant: str | None) -> None:
        """Refuse requests meant for another node: a file sent here must not count as held there.

        Raises:
            Refusal: 421.
        """
        if meant not in (None, self._node.settings.node):
            here = self._node.settings.node
            message = f"this is the agent of node {here}, not of {meant}; look up that node's address again"
            raise Refusal(421, "WrongNode", message)

    def stopping(self) -> Refusal:
        """The refusal of an agent that is being stopped; the next process listens at the same address."""
        message = f"the agent of node {self._node.settings.node} is being stopped; ask again, or ask another replica"
        return Refusal(503, "Stopping", message, {"Retry-After": str(RETRY_AFTER_SECONDS)})


def _forbidden_message(identity: Identity, access: Access) -> str:
    place = f"{access.namespace}/{access.table}" if access.namespace else "all namespaces"
    return (
        f"{identity.user} may not {access.verb} colocatedtables/data (group colocation.dev) of {place}; "
        "grant it by a Role and a RoleBinding"
    )
