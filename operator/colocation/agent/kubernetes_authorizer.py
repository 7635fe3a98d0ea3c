"""Asks the Kubernetes API who a token belongs to and what they may do."""

import contextlib
import os
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
from kubernetes.aio import client, config

from colocation.model.names import API_GROUP, TABLE_DATA_SUBRESOURCE, TABLE_PLURAL, TOKEN_AUDIENCE, node_audience

from .authorizer import Access, AuthenticationUnavailable, Identity

REQUEST_SECONDS = 10.0
Answer = TypeVar("Answer")


class KubernetesAuthorizer(contextlib.AbstractAsyncContextManager["KubernetesAuthorizer"]):
    """TokenReview and SubjectAccessReview. Uses the pod's ServiceAccount, or ``KUBECONFIG`` when it is set.

    Args:
        node: the agent's.
    """

    def __init__(self, node: str) -> None:
        self._node_audience = node_audience(node)
        self._api: client.ApiClient | None = None

    async def __aenter__(self) -> "KubernetesAuthorizer":
        configuration = client.Configuration()
        kubeconfig = os.environ.get("KUBECONFIG")
        if kubeconfig:
            await config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
        else:
            config.load_incluster_config(client_configuration=configuration)
        self._api = client.ApiClient(configuration)
        return self

    @property
    def api(self) -> client.ApiClient:
        """The connection to the API server, of the agent's own account."""
        assert self._api is not None, "entered"
        return self._api

    async def __aexit__(self, *_exception: object) -> None:
        if self._api is not None:
            await self._api.close()

    async def identify(self, token: str, peer: str = "") -> Identity | None:
        """See ``Authorizer``. A no counts as one of ``may`` does: at first the API server knows not all accounts."""
        return await self._believed(lambda: self._identify(token))

    async def _identify(self, token: str) -> Identity | None:
        asked = [TOKEN_AUDIENCE, self._node_audience]
        review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token, audiences=asked))
        answer = await self._ask(client.AuthenticationV1Api(self._api).create_token_review, review)
        status = answer.status
        matched = set(status.audiences or ()).intersection(asked)
        if not status.authenticated or not matched:
            return None
        user = status.user
        extra = tuple(sorted((key, tuple(values)) for key, values in (user.extra or {}).items()))
        groups = tuple(user.groups or ())
        return Identity(user.username, user.uid or "", groups, extra, self._node_audience in matched)

    async def may(self, identity: Identity, access: Access) -> bool:
        """See ``Authorizer``. A no counts when it was asked for after the API server had said that it is ready: before,
        it has not read all roles yet, and knows less rights than there are.
        """
        review = self._access_review(identity, access)
        create = client.AuthorizationV1Api(self._api).create_subject_access_review

        async def is_allowed() -> bool:
            return bool((await self._ask(create, review)).status.allowed)

        return await self._believed(is_allowed)

    async def _believed(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer; a no is asked for once more when the API server has said that it is ready."""
        answer = await ask()
        if answer:
            return answer
        await self._check_ready()
        return await ask()

    def _access_review(self, identity: Identity, access: Access) -> client.V1SubjectAccessReview:
        spec = client.V1SubjectAccessReviewSpec(
            user=identity.user,
            uid=identity.uid,
            groups=list(identity.groups),
            extra={key: list(values) for key, values in identity.extra},
            resource_attributes=client.V1ResourceAttributes(
                group=API_GROUP,
                resource=TABLE_PLURAL,
                subresource=TABLE_DATA_SUBRESOURCE,
                verb=access.verb,
                namespace=access.namespace,
                name=access.table,
            ),
        )
        return client.V1SubjectAccessReview(spec=spec)

    async def _check_ready(self) -> None:
        request = await self.api.param_serialize("GET", "/readyz", auth_settings=["BearerToken"])
        try:
            response = await self.api.call_api(*request, _request_timeout=REQUEST_SECONDS)
            await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error) from error
        if response.status != HTTPStatus.OK:
            raise AuthenticationUnavailable(
                f"the API server answered {response.status} to /readyz: it has just begun, and has not read all "
                "accounts and roles yet; ask again in a moment"
            )

    async def _ask(self, create: Callable[..., Awaitable[Any]], review: object) -> Any:  # the client is untyped
        try:
            return await create(review, _request_timeout=REQUEST_SECONDS)
        except client.ApiException as error:
            raise AuthenticationUnavailable(
                f"the API server answered {error.status} {error.reason} to a {type(review).__name__}; "
                "may the agent's ServiceAccount create tokenreviews and subjectaccessreviews?"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(error) from error


def _unreachable(error: Exception) -> AuthenticationUnavailable:
    return AuthenticationUnavailable(f"the API server cannot be reached: {error!r}")
