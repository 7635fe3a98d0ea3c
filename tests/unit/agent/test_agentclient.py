"""The client: whom it trusts, what it reads again, what it retries."""

import threading
from pathlib import Path

import pytest

from colocation.agentclient import AgentError, Credentials, NotFound, Timeouts, Unauthorized, Unreachable
from colocation.agentclient.transport import Request, Transport
from tests.support.agent_caller import AgentCaller
from tests.support.waiting import until
from tests.unit.storage.tables import data_path, make_table

from .cutting_proxy import CuttingProxy
from .harness import ADMIN_TOKEN, AgentThread, FakeAuthorizer, Pki, make_pki

TABLE = make_table({data_path(0): bytes(3_000_000)})


def test_trusts_only_the_agents_ca(agent: AgentThread, tmp_path: Path) -> None:
    """A certificate by another CA is refused."""
    with agent.client(ca=make_pki(tmp_path / "other").ca) as client, pytest.raises(Unreachable, match="certificate"):
        client.status()


def test_verifies_the_agents_name(tmp_path: Path) -> None:
    """A certificate of the right CA for another name is refused, although the client dials an IP."""
    pki = make_pki(tmp_path / "pki", server_name="something-else")
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start()
    try:
        with agent.client() as client, pytest.raises(Unreachable, match="colocation-agent"):
            client.status()
    finally:
        agent.stop()


def test_reads_a_renewed_token_and_ca_again(agent: AgentThread, tmp_path: Path, pki: Pki) -> None:
    """The kubelet renews both while a client lives."""
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("expired")
    ca.write_bytes(pki.ca.read_bytes())
    with AgentCaller(agent.url, Credentials(token, ca), Timeouts(10.0, 60.0, 0.0)) as client:
        with pytest.raises(Unauthorized):
            client.status()
        replace(token, ADMIN_TOKEN.encode())
        assert client.status().node == "node-1"
        replace(ca, make_pki(tmp_path / "other").ca.read_bytes())
        with pytest.raises(Unreachable, match="certificate"):
            client.status()
        replace(ca, pki.ca.read_bytes())
        assert client.status().node == "node-1"


def replace(path: Path, content: bytes) -> None:
    """Replace a file by another, as the kubelet does."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.rename(path)


def test_missing_credentials_are_an_error_of_their_own(agent: AgentThread, tmp_path: Path) -> None:
    """A forgotten mount is no network error."""
    client = AgentCaller(agent.url, Credentials(tmp_path / "token", tmp_path / "ca.crt"))
    with client, pytest.raises(Unauthorized, match="mount them"):
        client.status()


@pytest.mark.parametrize("url", ["http://10.0.0.1:8440", "10.0.0.1:8440", "https://"])
def test_refuses_urls_of_other_schemes(url: str) -> None:
    """Tokens never go over plain HTTP."""
    with pytest.raises(ValueError, match="must be https"):
        AgentCaller(url, Credentials())


def test_retries_temporary_errors(agent: AgentThread) -> None:
    """A request to an agent without its API server is retried, and then works."""
    agent.authorizer.available = False
    waits: list[float] = []

    def back_after(seconds: float) -> None:
        waits.append(seconds)
        agent.authorizer.available = len(waits) == 3

    agent.client().close()
    credentials = Credentials(agent.pki.ca.parent / f"{ADMIN_TOKEN}.token", agent.pki.ca)
    transport = Transport(lambda: [agent.url], credentials, Timeouts(10.0, 60.0, 30.0), 1, sleep=back_after)
    status, _, _ = transport.send_for_body(Request("GET", "/v1/status", {}), {200})
    transport.close()
    assert status == 200
    assert len(waits) == 3
    assert waits == sorted(waits) and waits[0] > 0 and waits[-1] <= 5.0


def test_gives_up_at_the_deadline(agent: AgentThread) -> None:
    """A deadline of zero is one attempt."""
    agent.authorizer.available = False
    waits: list[float] = []
    agent.client().close()
    credentials = Credentials(agent.pki.ca.parent / f"{ADMIN_TOKEN}.token", agent.pki.ca)
    transport = Transport(lambda: [agent.url], credentials, Timeouts(10.0, 60.0, 0.0), 1, sleep=waits.append)
    with pytest.raises(Exception, match="AuthenticationUnavailable"):
        transport.send(Request("GET", "/v1/status", {}), {200})
    transport.close()
    assert waits == []


def test_the_error_counts_the_attempts(agent: AgentThread) -> None:
    """After failed retries the error has their number and duration."""
    url = agent.url
    agent.stop()
    credentials = Credentials(agent.pki.ca.parent / f"{ADMIN_TOKEN}.token", agent.pki.ca)
    transport = Transport(lambda: [url], credentials, Timeouts(1.0, 1.0, 0.5), 1, sleep=lambda _: None)
    with pytest.raises(Unreachable, match=r"asked [2-9]\d* times in 0 s"):
        transport.send(Request("GET", "/v1/status", {}), {200})


def test_follows_an_agent_to_its_next_address(agent: AgentThread) -> None:
    """Addresses are looked up for every attempt, and the one that answers stays in use."""
    looked_up: list[int] = []

    def urls() -> list[str]:
        looked_up.append(1)
        return ["https://127.0.0.1:1"] if len(looked_up) < 4 else ["https://127.0.0.1:1", agent.url]

    credentials = Credentials(agent.pki.ca.parent / f"{ADMIN_TOKEN}.token", agent.pki.ca)
    agent.client().close()
    transport = Transport(urls, credentials, Timeouts(1.0, 10.0, 30.0), 1, "node-1", sleep=lambda _: None)
    assert transport.send_for_body(Request("GET", "/v1/status", {}), {200})[0] == 200
    assert transport.url == agent.url
    transport.close()


def test_a_failed_attempt_moves_the_next_call_to_the_next_address(agent: AgentThread) -> None:
    """A caller that asks several agents in turn asks each once per round, and finds moved ones in the next round."""
    credentials = Credentials(agent.pki.ca.parent / f"{ADMIN_TOKEN}.token", agent.pki.ca)
    agent.client().close()
    urls = ["https://127.0.0.1:1", agent.url]
    with AgentCaller(lambda: urls, credentials, Timeouts(1.0, 10.0, 0.0), node="node-1") as client:
        with pytest.raises(Unreachable):
            client.status()
        assert client.status().node == "node-1"


def test_another_nodes_agent_refuses(agent: AgentThread) -> None:
    """If the address now belongs to another node's agent, that agent takes no file meant for the old one."""
    credentials = Credentials(agent.pki.ca.parent / f"{ADMIN_TOKEN}.token", agent.pki.ca)
    agent.client().close()
    with (
        AgentCaller(agent.url, credentials, Timeouts(10.0, 60.0, 0.0), node="node-2") as client,
        pytest.raises(AgentError, match="421 WrongNode"),
    ):
        client.put_file(*TABLE.path, data_path(0), b"content")
    with agent.client() as client, pytest.raises(NotFound):
        client.head_file(*TABLE.path, data_path(0))


def test_another_nodes_certificate_is_refused(tmp_path: Path) -> None:
    """Before the token is sent; the previous release's shared certificate does not name the node, either."""
    pki = make_pki(tmp_path, "node-77.colocation-agent", node_names=())
    agent = AgentThread(tmp_path / "data", pki, FakeAuthorizer(), node="node-77").start()
    (tmp_path / "token").write_text(ADMIN_TOKEN)
    credentials = Credentials(tmp_path / "token", pki.ca)
    try:
        with AgentCaller(agent.url, credentials, Timeouts(10.0, 60.0, 0.0), node="node-77") as client:
            assert client.status().node == "node-77"
        asked = agent.authorizer.asked
        for node in ("node-78", ""):
            with (
                AgentCaller(agent.url, credentials, Timeouts(10.0, 60.0, 0.0), node=node) as client,
                pytest.raises(Unreachable, match="ostname"),
            ):
                client.status()
        assert agent.authorizer.asked == asked
    finally:
        agent.stop()


def test_leaving_a_stream_early_is_harmless(agent: AgentThread, caplog: pytest.LogCaptureFixture) -> None:
    """The next request of the same client works, and the agent logs no error."""
    with agent.client() as client:
        client.put_file(*TABLE.path, data_path(0), TABLE.contents[data_path(0)])
        with client.get_file(*TABLE.path, data_path(0)) as stream:
            next(stream.chunks(1000))
        assert client.head_file(*TABLE.path, data_path(0)).bytes == 3_000_000
        until(lambda: agent.metric("colocation_agent_active_transfers") == 0)
    assert "Error handling request" not in caplog.text


def test_a_cut_answer_is_no_short_file(agent: AgentThread) -> None:
    """If the connection ends in the middle, the reader gets an error after the received bytes, and can continue."""
    content = TABLE.contents[data_path(0)]
    with agent.client() as client:
        client.put_file(*TABLE.path, data_path(0), content)
    received = b""
    credentials = Credentials(agent.pki.ca.parent / f"{ADMIN_TOKEN}.token", agent.pki.ca)
    with (
        CuttingProxy(agent.running.port, cut_after_bytes=1_000_000, cuts=1) as proxy,
        AgentCaller(proxy.url, credentials) as client,
    ):
        with pytest.raises(Unreachable, match="cut off after"), client.get_file(*TABLE.path, data_path(0)) as stream:
            for chunk in stream.chunks(1000):
                received += chunk
        assert 0 < len(received) < len(content)
        with client.get_file(*TABLE.path, data_path(0), len(received)) as stream:
            assert received + stream.read() == content


def test_many_threads_share_a_client(agent: AgentThread) -> None:
    """Concurrent PUTs of one file by one client all succeed, and the file is whole."""
    content = TABLE.contents[data_path(0)]
    published = []
    with agent.client() as client:
        threads = [
            threading.Thread(target=lambda: published.append(client.put_file(*TABLE.path, data_path(0), content)))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with client.get_file(*TABLE.path, data_path(0)) as stream:
            assert stream.read() == content
    assert len(published) == 8
