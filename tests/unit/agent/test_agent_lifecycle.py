"""Start, readiness, metrics, certificate renewal, stop."""

import shutil
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from colocation.agent.settings import settings_from
from colocation.agent.tls import Certificate
from colocation.agentclient import Unreachable
from tests.unit.storage.tables import damage, data_path, make_table, on_disk

from .harness import AgentThread, FakeAuthorizer, Pki, make_pki, until

TABLE = make_table({data_path(0): b"content"})


def get(url: str) -> tuple[int, str]:
    """(status, text) of a plain HTTP request."""
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_ready_while_the_root_is_writable(agent: AgentThread) -> None:
    """Ready after the first scan; not when the data root cannot be written; alive in both cases."""
    assert get(f"{agent.health_url}/readyz") == (200, "ok\n")
    shutil.rmtree(agent.settings.data_root / ".incoming")
    (agent.settings.data_root / ".incoming").write_text("in the way")
    status, text = get(f"{agent.health_url}/readyz")
    assert (status, "not writable" in text) == (503, True)
    assert get(f"{agent.health_url}/healthz") == (200, "ok\n")


def test_metrics_count_bytes_and_requests(agent: AgentThread) -> None:
    """Bytes in, bytes out, requests by verb and code, and the disk; no table is named."""
    with agent.client() as client, agent.client("forged") as stranger:
        client.put_file(*TABLE.path, data_path(0), b"content")
        client.get_file(*TABLE.path, data_path(0), 0, 3).read()
        with pytest.raises(Exception, match="401"):
            stranger.status()
    _, text = get(f"{agent.health_url}/metrics")
    assert "colocation_agent_received_bytes_total 7.0" in text
    assert "colocation_agent_served_bytes_total 3.0" in text
    assert 'colocation_agent_requests_total{code="206",verb="get"} 1.0' in text
    assert 'colocation_agent_requests_total{code="401",verb="none"} 1.0' in text
    assert "colocation_agent_disk_free_bytes" in text
    assert "orders" not in text


def test_a_stopped_agent_cannot_be_reached(agent: AgentThread) -> None:
    """Callers get Unreachable, with the URL."""
    client = agent.client()
    url = agent.url
    agent.stop()
    with client, pytest.raises(Unreachable, match=url):
        client.status()


def test_a_renewed_certificate_is_taken_up(tmp_path: Path, pki: Pki) -> None:
    """New connections get the new certificate; files that do not fit together change nothing."""
    own = Pki(*(Path(shutil.copy(path, tmp_path / path.name)) for path in (pki.ca, pki.certificate, pki.key)))
    certificate = Certificate(own.certificate, own.key)
    assert certificate.reload_if_changed() is False
    renewed = make_pki(tmp_path / "renewed")
    shutil.copy(renewed.certificate, own.certificate)
    with pytest.raises(ssl.SSLError):
        certificate.reload_if_changed()  # the key is still the old one
    shutil.copy(renewed.key, own.key)
    assert certificate.reload_if_changed() is True


def test_the_scrub_runs_in_the_background(tmp_path: Path, pki: Pki) -> None:
    """A running agent hashes its files again within the interval, and counts what has changed."""
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start(scrub_interval_seconds=0.01)
    try:
        with agent.client() as client:
            client.put_file(*TABLE.path, data_path(0), b"content")
        damage(on_disk(agent.settings.data_root, TABLE.path, data_path(0)))
        assert until(lambda: agent.metric("colocation_agent_scrubbed_bytes_total")) >= 7
        assert until(lambda: agent.metric("colocation_agent_damaged_files_found_total")) == 1
    finally:
        agent.stop()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "node's name is missing", id="no node"),
        pytest.param(["--node-name", "n", "--data-root", "/nowhere"], "/nowhere does not exist", id="no root"),
        pytest.param(["--node-name", "n", "--port", "http"], "invalid literal", id="port"),
        pytest.param(["--node-name", "n", "--disk-headroom-fraction", "1.5"], "0 to below 1", id="fraction"),
        pytest.param(["--node-name", "n", "--scrub-mib-per-second", "0"], "must be above 0", id="pace"),
    ],
)
def test_wrong_settings(
    pki: Pki, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """A wrong or missing setting ends with status 2 and says which."""
    environment = {
        "COLOCATION_DATA_ROOT": str(tmp_path),
        "COLOCATION_TLS_CERTIFICATE": str(pki.certificate),
        "COLOCATION_TLS_KEY": str(pki.key),
    }
    with pytest.raises(SystemExit) as caught:
        settings_from(arguments, environment)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_settings_from_the_environment(pki: Pki, tmp_path: Path) -> None:
    """Variables set what flags do not; flags win."""
    environment = {
        "COLOCATION_NODE_NAME": "node-1",
        "COLOCATION_DATA_ROOT": str(tmp_path),
        "COLOCATION_TLS_CERTIFICATE": str(pki.certificate),
        "COLOCATION_TLS_KEY": str(pki.key),
        "COLOCATION_PORT": "1234",
    }
    settings = settings_from(["--port", "4321"], environment)
    assert (settings.node, settings.data_root, settings.port) == ("node-1", tmp_path, 4321)
