"""Asks the API server whose a token is and what they may do, for the operator's own HTTPS servers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..model.names import API_GROUP, TOKEN_AUDIENCE
from .api import Api, Resource

Answer = TypeVar("Answer")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews")


@dataclass(frozen=True)
class Caller:
    """Who sent a request, as TokenReview tells: user name, uid, groups, extra (authenticators' own fields)."""

    user: str
    uid: str
    groups: tuple[str, ...]
    extra: dict[str, list[str]]


@dataclass(frozen=True)
class Right:
    """A verb on a virtual subresource of ours; namespace '' = all namespaces, name '' = all objects there."""

    verb: str
    resource: str
    subresource: str
    namespace: str = ""
    name: str = ""


async def identify(api: Api, token: str) -> Caller | None:
    """The account of a token; None when it is not valid.

    Tokens for our own audience are taken, and those that the API server itself takes: people have no others. A no
    counts as one of ``may`` does.

    Raises:
        ApiError: the question could not be asked, or the API server is not ready.
    """
    return await _believed(api, lambda: _identify(api, token))


async def _identify(api: Api, token: str) -> Caller | None:
    for audiences in ([TOKEN_AUDIENCE], []):
        status = await _review(api, TOKEN_REVIEWS, "TokenReview", {"token": token, "audiences": audiences})
        if status.get("authenticated") and set(audiences) <= set(status.get("audiences") or ()):
            user = status["user"]
            groups = tuple(user.get("groups") or ())
            return Caller(user["username"], user.get("uid", ""), groups, user.get("extra") or {})
    return None


async def may(api: Api, caller: Caller, right: Right) -> bool:
    """Whether the caller has the right. A no counts when it was asked for after the API server had said that it is
    ready: before, it has not read all roles yet, and knows less rights than there are.

    Raises:
        ApiError: the question could not be asked, or the API server is not ready.
    """
    attributes = {
        "group": API_GROUP, "resource": right.resource, "subresource": right.subresource, "verb": right.verb,
        "namespace": right.namespace, "name": right.name,
    }  # fmt: skip
    spec = {
        "user": caller.user, "uid": caller.uid, "groups": list(caller.groups), "extra": caller.extra,
        "resourceAttributes": attributes,
    }  # fmt: skip
    return await _believed(api, lambda: _is_allowed(api, spec))


async def _believed(api: Api, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer; a no is asked for once more when the API server has said that it is ready."""
    answer = await ask()
    if answer:
        return answer
    await api.check_ready()
    return await ask()


async def _is_allowed(api: Api, spec: dict[str, Any]) -> bool:
    status = await _review(api, ACCESS_REVIEWS, "SubjectAccessReview", spec)
    return bool(status.get("allowed"))


async def _review(api: Api, resource: Resource, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    body = {"apiVersion": f"{resource.group}/{resource.version}", "kind": kind, "spec": spec}
    answer = await api.create(resource, "", body)
    return answer.get("status") or {}
