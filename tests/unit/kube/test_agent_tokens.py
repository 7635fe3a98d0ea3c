"""One token for each node, made when it is needed and renewed before it ends, for few calls."""

import ssl
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from colocation.agentclient import CallerCredentials, Unauthorized
from colocation.kube import agent_tokens as module
from colocation.kube.agent_tokens import AgentTokens, TokenAccount
from colocation.kube.api import Api, ApiError
from colocation.state.objects import ObservedAgent
from colocation.state.parse import parse_agent

from ..agent.tokens import token as made_token

HOUR = 3600.0


@dataclass
class Cluster:
    """The API server's side: it makes tokens of ``life_seconds`` and counts them; ``pods`` by URL."""

    life_seconds: float = module.LIFETIME_SECONDS
    now: float = 1000.0
    is_away: bool = False
    made: list[tuple[float, str, dict[str, object]]] = field(default_factory=list)
    pods: dict[str, ObservedAgent] = field(default_factory=dict)

    async def create_token(self, namespace: str, account: str, spec: dict[str, object]) -> dict[str, object]:
        """See ``Api``; the wall clock of the API server is years away from the operator's."""
        if self.is_away:
            raise ApiError(0, "no answer from the API server")
        self.made.append((self.now, f"{namespace}/{account}", spec))
        audience = spec["audiences"][0]  # type: ignore[index]
        text = made_token(audience, 7e8 + self.life_seconds, iat=7e8, number=len(self.made))
        return {"spec": {}, "status": {"token": text}}

    def add(self, node: str, takes_node_tokens: bool = True, shares_certificate: bool = False) -> str:
        """An agent's pod; its URL."""
        pod = ObservedAgent("system", f"agent-{node}", "", "", node, f"10.0.0.{len(self.pods)}", False,
                            takes_node_tokens=takes_node_tokens, shares_certificate=shares_certificate)  # fmt: skip
        assert pod.url is not None
        self.pods[pod.url] = pod
        return pod.url

    @property
    def audiences(self) -> list[object]:
        return [spec["audiences"] for _, _, spec in self.made]


class General:
    """The token that old agents know, and no CA."""

    def token(self) -> str:
        return "general"

    def tls_context(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def certificate_name(self, node: str) -> str:
        return "general"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def tokens(cluster: Cluster) -> AgentTokens:
    return made(cluster)


def made(cluster: Cluster, pod: str = "") -> AgentTokens:
    api: Api = cluster  # type: ignore[assignment]
    general: CallerCredentials = General()
    account = TokenAccount("system", "colocation-operator", pod)
    return AgentTokens(api, account, general, cluster.pods.get, lambda: cluster.now, Random(1))


async def test_each_node_has_a_token_of_its_own(cluster: Cluster, tokens: AgentTokens) -> None:
    """Made when its agent is first asked; the next questions use it again."""
    one, two = cluster.add("node-1"), cluster.add("node-2")
    first = await tokens.token(one)
    assert await tokens.token(one) == first == tokens.credentials(one).token()
    assert await tokens.token(two) != first
    assert cluster.audiences == [["colocation.dev/node-1"], ["colocation.dev/node-2"]]
    assert {account for _, account, _ in cluster.made} == {"system/colocation-operator"}


async def test_the_node_is_the_pods_and_not_the_addresses(cluster: Cluster, tokens: AgentTokens) -> None:
    """An address that another node's agent has by now gets that node's token, orders too."""
    url = cluster.add("node-1")
    before = await tokens.token(url)
    del cluster.pods[url]
    cluster.add("node-2")
    assert await tokens.token(url) != before
    assert tokens.known_token(url) != before
    assert cluster.audiences[-1] == ["colocation.dev/node-2"]


async def test_a_token_ends_with_the_operators_pod(cluster: Cluster) -> None:
    """What was captured is worth nothing once another operator's pod has come."""
    await made(cluster, "operator-x").token(cluster.add("node-1"))
    assert cluster.made[0][2]["boundObjectRef"] == {"apiVersion": "v1", "kind": "Pod", "name": "operator-x"}


async def test_agents_of_the_release_before_get_the_general_token(cluster: Cluster, tokens: AgentTokens) -> None:
    """They know no audience of their node. Their pod shows it, not their answer: no one can ask for it."""
    url = cluster.add("node-1", takes_node_tokens=False)
    assert await tokens.token(url) == "general" == tokens.known_token(url)
    tokens.refused(url)
    assert await tokens.token(url) == "general"
    cluster.pods[url] = ObservedAgent("system", "a", "", "", "node-1", "10.0.0.0", False, takes_node_tokens=True)
    assert await tokens.token(url) != "general"
    tokens.refused(url)
    assert await tokens.token(url) != "general"


@pytest.mark.parametrize(("labels", "takes"), [
    ({"colocation.dev/node-tokens": "true"}, True), ({"colocation.dev/node-tokens": "1"}, False), ({}, False),
])  # fmt: skip
def test_which_agents_know_their_audience(labels: dict[str, str], takes: bool) -> None:
    """As the chart of their release marks their pods."""
    agent = parse_agent({"metadata": {"labels": labels}, "spec": {"nodeName": "node-1"}})
    assert agent is not None
    assert agent.takes_node_tokens is takes


async def test_no_one_there_gets_no_token(cluster: Cluster, tokens: AgentTokens) -> None:
    """An address that no agent's pod has."""
    with pytest.raises(Unauthorized, match="no agent's pod"):
        await tokens.token("https://10.9.9.9:8440")
    with pytest.raises(Unauthorized, match="not been asked"):
        tokens.known_token("https://10.9.9.9:8440")


@pytest.mark.parametrize("life_seconds", [600.0, HOUR, module.LIFETIME_SECONDS, 48 * HOUR])
async def test_no_token_is_used_to_its_end(cluster: Cluster, tokens: AgentTokens, life_seconds: float) -> None:
    """However long the API server lets it live, by the clock of which no operator knows."""
    cluster.life_seconds = life_seconds
    url, given_at = cluster.add("node-1"), {}
    for _ in range(300):
        given_at.setdefault(await tokens.token(url), cluster.now)
        assert cluster.now - given_at[tokens.known_token(url)] <= 0.9 * life_seconds
        cluster.now += life_seconds / 50
    assert len(given_at) >= 6


async def test_the_old_token_serves_while_there_is_no_new_one(cluster: Cluster, tokens: AgentTokens) -> None:
    """The API server is asked again once a minute; when the token has ended, its error is reported."""
    url = cluster.add("node-1")
    first = await tokens.token(url)
    cluster.now += 0.85 * cluster.life_seconds
    cluster.is_away = True
    assert await tokens.token(url) == first
    cluster.now = 1000.0 + cluster.life_seconds
    with pytest.raises(Unauthorized, match="no answer from the API server"):
        await tokens.token(url)
    cluster.is_away = False
    assert await tokens.token(url) != first


async def test_a_refused_token_is_replaced_but_not_all_the_time(cluster: Cluster, tokens: AgentTokens) -> None:
    """An agent that refuses every token costs one call a minute."""
    url = cluster.add("node-1")
    for _ in range(600):
        await tokens.token(url)
        tokens.refused(url)
        cluster.now += 1.0
    assert 2 <= len(cluster.made) <= 11


async def test_a_thousand_nodes_cost_less_than_three_calls_a_minute(cluster: Cluster, tokens: AgentTokens) -> None:
    """From the start of an operator, which asks for all at once, on through two days: in every hour."""
    urls = [cluster.add(f"node-{number}") for number in range(1000)]
    for url in urls:
        await tokens.token(url)
    begun, cluster.made = cluster.now, []
    while cluster.now < begun + 48 * HOUR:
        cluster.now += 180.0
        for url in urls:
            await tokens.token(url)
    hours = Counter(int((at - begun) // HOUR) for at, _, _ in cluster.made)
    assert max(hours.values()) < 3 * 60


async def test_agents_that_have_gone_are_forgotten(
    cluster: Cluster, tokens: AgentTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster whose nodes come and go does not fill the memory."""
    monkeypatch.setattr(module, "MIN_TIDY", 4)
    for number in range(200):
        cluster.pods.clear()
        cluster.pods[f"https://10.0.1.{number}:8440"] = ObservedAgent(
            "system", "a", "", "", f"node-{number}", f"10.0.1.{number}", False, takes_node_tokens=True
        )
        await tokens.token(f"https://10.0.1.{number}:8440")
    assert len(tokens._agents) < 70
    assert len(tokens._held) < 70


async def test_an_agents_certificate_has_to_name_its_node(cluster: Cluster, tokens: AgentTokens) -> None:
    """As the API server tells the pod's node; an agent of the release before has a name that all share."""
    new, old = cluster.add("node-1"), cluster.add("node-2", shares_certificate=True)
    for url in (new, old):
        await tokens.token(url)
    assert tokens.certificate_name(new) == tokens.credentials(new).certificate_name("") == "node-1.colocation-agent"
    assert tokens.certificate_name(old) == "colocation-agent"
    with pytest.raises(Unauthorized):
        tokens.certificate_name("https://10.9.9.9:8440")


async def test_an_upgraded_agent_is_taken_by_its_own_certificate_only(cluster: Cluster, tokens: AgentTokens) -> None:
    """At the address that it had before, too."""
    url = cluster.add("node-1", shares_certificate=True)
    await tokens.token(url)
    cluster.pods[url] = replace(cluster.pods[url], shares_certificate=False)
    await tokens.token(url)
    assert tokens.certificate_name(url) == "node-1.colocation-agent"
