"""Asks the Kubernetes API who a token belongs to and what they may do."""

import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from kubernetes.aio import client, config

from colocation.model.names import API_GROUP, TABLE_DATA_SUBRESOURCE, TABLE_PLURAL, TOKEN_AUDIENCE, node_audience

from .authorizer import Access, AuthenticationUnavailable, Identity

REQUEST_SECONDS = 10.0


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
        """See ``Authorizer``."""
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
        """See ``Authorizer``."""
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
        review = client.V1SubjectAccessReview(spec=spec)
        answer = await self._ask(client.AuthorizationV1Api(self._api).create_subject_access_review, review)
        return bool(answer.status.allowed)

    async def _ask(self, create: Callable[..., Awaitable[Any]], review: object) -> Any:  # the client is untyped
        try:
            return await create(review, _request_timeout=REQUEST_SECONDS)
        except client.ApiException as error:
            raise AuthenticationUnavailable(
                f"the API server answered {error.status} {error.reason} to a {type(review).__name__}; "
                "may the agent's ServiceAccount create tokenreviews and subjectaccessreviews?"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise AuthenticationUnavailable(f"the API server cannot be reached: {error!r}") from error
