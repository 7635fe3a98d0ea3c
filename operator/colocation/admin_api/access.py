"""Who calls, and whether they are an admin: a right on ``colocationgroups/admin``. Refusals tell nothing else."""

from ..kube.api import Api
from ..kube.reviews import Caller, Right, identify, may
from ..model.names import GROUP_ADMIN_SUBRESOURCE, GROUP_PLURAL
from .errors import Refusal

_SCHEME = "bearer"


async def caller_of(api: Api, authorization: str) -> Caller:
    """Whose token the ``Authorization`` header holds.

    Raises:
        Refusal: 401, there is none or it is not valid.
        ApiError: the question could not be asked.
    """
    scheme, _, token = authorization.partition(" ")
    is_token = scheme.lower() == _SCHEME and token.strip() and token.isascii()  # no token has another character
    caller = await identify(api, token.strip()) if is_token else None
    if caller is None:
        message = "send Authorization: Bearer <token>, e.g. of kubectl create token --audience colocation.dev"
        raise Refusal(401, "Unauthorized", message, {"WWW-Authenticate": 'Bearer realm="colocation.dev"'})
    return caller


async def require(api: Api, caller: Caller, verb: str, namespace: str = "", group: str = "") -> None:
    """Check the right on one group, on the groups of a namespace, or ('' and '') on all groups.

    Raises:
        Refusal: 403, the same whatever was asked for.
        ApiError: the question could not be asked.
    """
    right = Right(verb, GROUP_PLURAL, GROUP_ADMIN_SUBRESOURCE, namespace, group)
    if not await may(api, caller, right):
        message = (
            f"{caller.user} may not {verb} {GROUP_PLURAL}/{GROUP_ADMIN_SUBRESOURCE} (group colocation.dev) there; "
            "bind the ClusterRole colocation-admin, in the group's namespace or for all"
        )
        raise Refusal(403, "Forbidden", message)
