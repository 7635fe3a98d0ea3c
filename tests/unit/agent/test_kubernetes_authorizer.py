"""What the agent asks of the Kubernetes API, and how it uses the answers."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import web

from colocation.agent.authorizer import Access, AuthenticationUnavailable, Identity, KubernetesAuthorizer

USER = {
    "username": "system:serviceaccount:shop:loader",
    "uid": "1234",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["loader-0"]},
}
LOADER = Identity(
    "system:serviceaccount:shop:loader",
    "1234",
    ("system:serviceaccounts", "system:authenticated"),
    (("authentication.kubernetes.io/pod-name", ("loader-0",)),),
)


@dataclass
class ApiServer:
    """Answers every POST with ``status``; keeps the requests.

    ``readiness``: its answer to ``/readyz``, after which its status becomes ``next_status``.
    """

    status: dict[str, object] = field(default_factory=dict)
    code: int = 201
    asked: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    readiness: int = 200
    next_status: dict[str, object] | None = None

    async def ready(self, _: web.Request) -> web.Response:
        """``/readyz``."""
        self.status = self.status if self.next_status is None else self.next_status
        return web.Response(text="ok", status=self.readiness)

    async def answer(self, request: web.Request) -> web.Response:
        """One review."""
        body = await request.json()
        self.asked.append((request.path, body["spec"]))
        return web.json_response({**body, "status": self.status}, status=self.code)


@pytest.fixture
async def api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiServer]:
    """A bare API server that KUBECONFIG names."""
    server = ApiServer()
    application = web.Application()
    application.router.add_post("/{path:.*}", server.answer)
    application.router.add_get("/readyz", server.ready)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    context = {"cluster": "test", "user": "test"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": context}],
        "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}],
        "users": [{"name": "test", "user": {"token": "agent"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    yield server
    await runner.cleanup()


async def test_asks_who_a_token_belongs_to(api_server: ApiServer) -> None:
    """TokenReview with the agents' audience; returns user, uid, groups and extra."""
    api_server.status = {"authenticated": True, "audiences": ["colocation.dev"], "user": USER}
    async with KubernetesAuthorizer("node-1") as authorizer:
        assert await authorizer.identify("secret") == LOADER
    assert api_server.asked == [
        (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"token": "secret", "audiences": ["colocation.dev", "colocation.dev/node-1"]},
        )
    ]


@pytest.mark.parametrize(
    "audiences",
    [["colocation.dev/node-1"], ["colocation.dev", "colocation.dev/node-1"]],
)
async def test_the_audience_of_a_token_is_recognized(api_server: ApiServer, audiences: list[str]) -> None:
    """By the API server's answer, not by what was asked."""
    api_server.status = {"authenticated": True, "audiences": audiences, "user": USER}
    async with KubernetesAuthorizer("node-1") as authorizer:
        assert await authorizer.identify("secret") == replace(LOADER, is_for_this_node=True)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"authenticated": False, "error": "token has expired"}, id="expired"),
        pytest.param({"authenticated": False, "audiences": ["colocation.dev"], "user": USER}, id="not valid"),
        pytest.param({"authenticated": True, "user": USER}, id="server that ignores audiences"),
        pytest.param({"authenticated": True, "audiences": ["https://kubernetes"], "user": USER}, id="other audience"),
        pytest.param({"authenticated": True, "audiences": ["colocation.dev/node-2"], "user": USER}, id="other node"),
        pytest.param({"authenticated": False, "audiences": ["colocation.dev/node-1"], "user": USER}, id="neither"),
    ],
)
async def test_tokens_for_other_audiences_are_refused(api_server: ApiServer, status: dict[str, object]) -> None:
    """Only a token for the agents' audience is accepted."""
    api_server.status = status
    async with KubernetesAuthorizer("node-1") as authorizer:
        assert await authorizer.identify("secret") is None


@pytest.mark.parametrize("allowed", [True, False])
async def test_asks_what_a_caller_may_do(api_server: ApiServer, allowed: bool) -> None:
    """SubjectAccessReview on colocatedtables/data, for the whole identity."""
    api_server.status = {"allowed": allowed}
    async with KubernetesAuthorizer("node-1") as authorizer:
        assert await authorizer.may(LOADER, Access("create", "shop", "orders")) is allowed
    path, spec = api_server.asked[0]
    assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert spec["resourceAttributes"] == {
        "group": "colocation.dev",
        "resource": "colocatedtables",
        "subresource": "data",
        "verb": "create",
        "namespace": "shop",
        "name": "orders",
    }
    assert (spec["user"], spec["uid"], spec["groups"]) == (LOADER.user, LOADER.uid, list(LOADER.groups))
    assert spec["extra"] == {"authentication.kubernetes.io/pod-name": ["loader-0"]}


@pytest.mark.parametrize("readiness", [403, 500, 503])
async def test_a_refusal_before_readiness_does_not_count(api_server: ApiServer, readiness: int) -> None:
    """It has not read all roles yet, not even those that let the agent ask for its readiness."""
    api_server.status, api_server.readiness = {"allowed": False}, readiness
    async with KubernetesAuthorizer("node-1") as authorizer:
        with pytest.raises(AuthenticationUnavailable, match=str(readiness)):
            await authorizer.may(LOADER, Access("create", "shop", "orders"))


@pytest.mark.parametrize("readiness", [403, 500, 503])
async def test_an_unknown_token_is_not_refused_before_readiness(api_server: ApiServer, readiness: int) -> None:
    """It does not know the token's account yet; the refusal would be cached for ten seconds (chaos, seed 86420117)."""
    api_server.status, api_server.readiness = {"authenticated": False, "error": "no such account"}, readiness
    async with KubernetesAuthorizer("node-1") as authorizer:
        with pytest.raises(AuthenticationUnavailable, match=str(readiness)):
            await authorizer.identify("secret")


async def test_a_token_is_reviewed_again_after_readiness(api_server: ApiServer) -> None:
    """As rights are."""
    api_server.status = {"authenticated": False}
    api_server.next_status = {"authenticated": True, "audiences": ["colocation.dev"], "user": USER}
    async with KubernetesAuthorizer("node-1") as authorizer:
        assert await authorizer.identify("secret") == LOADER


async def test_a_refused_right_is_reviewed_again_after_readiness(api_server: ApiServer) -> None:
    """It may have become ready between the refusal and its answer."""
    api_server.status, api_server.next_status = {"allowed": False}, {"allowed": True}
    async with KubernetesAuthorizer("node-1") as authorizer:
        assert await authorizer.may(LOADER, Access("create", "shop", "orders"))


@pytest.mark.parametrize("code", [403, 500])
async def test_errors_are_no_refusals(api_server: ApiServer, code: int) -> None:
    """A question that cannot be asked is an error: neither yes nor no."""
    api_server.code = code
    async with KubernetesAuthorizer("node-1") as authorizer:
        with pytest.raises(AuthenticationUnavailable, match=str(code)):
            await authorizer.identify("secret")


async def test_an_unreachable_api_server_is_an_error(api_server: ApiServer, tmp_path: Path) -> None:
    """No connection is no answer."""
    kubeconfig = json.loads((tmp_path / "kubeconfig").read_text())
    kubeconfig["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    async with KubernetesAuthorizer("node-1") as authorizer:
        with pytest.raises(AuthenticationUnavailable, match="cannot be reached"):
            await authorizer.may(LOADER, Access("list"))
