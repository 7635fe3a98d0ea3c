"""Start, readiness, metrics, certificate renewal, stop."""

import errno
import hashlib
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from unittest.mock import Mock

import pytest

from colocation.agent.settings import settings_from
from colocation.agentclient import AgentClient, AgentError, Credentials, InsufficientStorage, Timeouts, Unreachable
from colocation.agentclient.calls import file_target
from colocation.common.tls import Certificate
from colocation.model.file_transfer import content_digest
from tests.support.waiting import until
from tests.unit.storage.tables import damage, data_path, make_table, on_disk

from .harness import AgentThread, FakeAuthorizer, Pki, make_pki
from .tokens import token

TABLE = make_table({data_path(0): b"content"})
KUBECONFIG_TO_NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "test",
    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    "clusters": [{"name": "test", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "test", "user": {"token": "agent"}}],
}


def get(url: str) -> tuple[int, str]:
    """(status, text) of a plain HTTP request."""
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_ready_while_the_root_is_writable(agent: AgentThread) -> None:
    """Ready after the first scan; not while the data root is not writable; alive in both cases."""
    assert get(f"{agent.health_url}/readyz") == (200, "ok\n")
    shutil.rmtree(agent.settings.data_root / ".incoming")
    (agent.settings.data_root / ".incoming").write_text("in the way")
    agent.running.node.health.probe()
    status, text = get(f"{agent.health_url}/readyz")
    assert (status, text.partition(":")[0]) == (503, "DiskFailing")
    assert 'colocation_agent_disk_fault{reason="DiskFailing"} 1.0' in get(f"{agent.health_url}/metrics")[1]
    assert get(f"{agent.health_url}/healthz") == (200, "ok\n")


def test_asking_for_readiness_writes_nothing(agent: AgentThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any caller who reaches the port may ask; only upkeep probes the disk."""
    health, written = agent.running.node.health, []
    monkeypatch.setattr(health, "probe", lambda: written.append(1))
    assert {get(f"{agent.health_url}/readyz") for _ in range(20)} == {(200, "ok\n")}
    assert written == []


def test_another_folder_at_the_data_root_ends_the_agent(agent: AgentThread) -> None:
    """Only a new process sees a disk that is mounted late, so the liveness probe fails."""
    root = agent.settings.data_root
    root.rename(root.with_name("before"))
    root.mkdir()
    agent.running.node.health.probe()
    assert get(f"{agent.health_url}/healthz")[0] == 503
    with agent.client() as client:
        assert client.status().disk.reason == "DiskMissing"
        with pytest.raises(InsufficientStorage, match=r"DiskMissing: .* use another node"):
            client.put_file(*TABLE.path, data_path(0), b"lost when the disk is back")


def test_a_full_disk_is_ready(agent: AgentThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent serves all it has; its report shows that it takes no more, and since when."""
    full = OSError(errno.ENOSPC, "full")
    monkeypatch.setattr(agent.running.node.root, "check_writable", Mock(side_effect=full))
    agent.running.node.health.probe()
    assert get(f"{agent.health_url}/readyz") == (200, "ok\n")
    with agent.client() as client:
        status = client.status()
    assert (status.disk.reason, status.disk.id) == ("DiskFull", agent.running.node.health.disk_id)
    assert 0 < status.disk.since_uptime_seconds <= status.uptime_seconds


def test_metrics_count_bytes_and_requests(agent: AgentThread) -> None:
    """Bytes received and sent, requests by verb and code, and the disk; no table is named."""
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


def test_a_start_removes_interrupted_uploads(tmp_path: Path, pki: Pki) -> None:
    """A killed agent leaves them; restarts more often than daily must not let them accumulate."""
    left = tmp_path / "node" / ".incoming" / "uploads" / "cut-off"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    agent = AgentThread(tmp_path / "node", pki, FakeAuthorizer()).start()
    agent.stop()
    assert not left.exists()


def test_a_stop_finishes_uploads_and_refuses_new_requests(tmp_path: Path, pki: Pki) -> None:
    """After SIGTERM: not ready, running requests are served to their end, new ones get 503 with Retry-After."""
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start(shutdown_seconds=60.0)
    content = b"content"
    headers = {"Content-Digest": content_digest(hashlib.sha256(content).hexdigest()), "Content-Length": "7"}
    target = file_target(*TABLE.path, data_path(0))
    with agent.client() as client, agent._sent("PUT", target, headers, content[:3]) as upload:
        until(lambda: client.status().active_transfers)
        stop = threading.Thread(target=agent.stop)
        stop.start()
        until(lambda: get(f"{agent.health_url}/readyz") == (503, "stopping\n"))
        away = until(lambda: (answer := agent.raw_request("GET", "/v1/status")).status == 503 and answer)
        assert (json.loads(away.body)["error"], away.headers["Retry-After"]) == ("Stopping", "2")
        upload.sendall(content[3:])
        answer = http.client.HTTPResponse(upload, method="PUT")
        answer.begin()
        assert answer.status == 201
        stop.join(60)
    assert on_disk(agent.settings.data_root, TABLE.path, data_path(0)).read_bytes() == content


def test_a_stop_aborts_slow_requests(tmp_path: Path, pki: Pki) -> None:
    """A client that sends nothing more cannot delay the agent's end."""
    agent = AgentThread(tmp_path / "root", pki, FakeAuthorizer()).start(shutdown_seconds=0.2)
    headers = {"Content-Digest": content_digest("0" * 64), "Content-Length": "7"}
    with agent.client() as client, agent._sent("PUT", file_target(*TABLE.path, data_path(0)), headers, b"con"):
        until(lambda: client.status().active_transfers)
        agent.stop()
    assert not on_disk(agent.settings.data_root, TABLE.path, data_path(0)).exists()


def test_a_renewed_certificate_is_loaded(tmp_path: Path, pki: Pki) -> None:
    """New connections get the new certificate; files that do not match change nothing."""
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
    """A running agent hashes its files again within the interval, and counts changed ones."""
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
        pytest.param(["--node-name", "n", "--log-format", "xml"], "allowed: text, json", id="log format"),
        pytest.param(["--node-name", "n", "--scrub-mib-per-second", "0"], "must be above 0", id="pace"),
        pytest.param(["--node-name", "n", "--clone-mib-per-second", "0"], "allowed: 1 or more", id="standstill"),
        pytest.param(["--node-name", "n", "--clone-mib-per-second", "nan"], "allowed: 1 or more", id="no number"),
        pytest.param(["--node-name", "n", "--max-requests-per-address", "3000"], "1 to max-requests, 2048", id="most"),
        pytest.param(["--node-name", "n", "--require-mount-point", "yes"], "allowed: true, false", id="mount point"),
    ],
)
def test_wrong_settings(
    pki: Pki, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """A wrong or missing setting ends with status 2 and a message that names it."""
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
        "COLOCATION_CLONE_MIB_PER_SECOND": "",
        "COLOCATION_MAX_REQUESTS_PER_ADDRESS": "1000",
    }
    settings = settings_from(["--port", "4321"], environment)
    assert (settings.node, settings.data_root, settings.port) == ("node-1", tmp_path, 4321)
    assert (settings.clone_mib_per_second, settings.max_requests, settings.max_requests_per_address) == (
        None, 2048, 1000
    )  # fmt: skip
    environment["COLOCATION_CLONE_MIB_PER_SECOND"] = "250"
    assert settings_from([], environment).clone_mib_per_second == 250.0


def test_the_process_serves_until_sigterm(tmp_path: Path, pki: Pki) -> None:
    """``python -m colocation.agent``: ready, closed to all without the API server, and exit code 0 after SIGTERM."""
    (tmp_path / "root").mkdir()
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG_TO_NOWHERE))
    environment = os.environ | {
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "COLOCATION_NODE_NAME": "node-1",
        "COLOCATION_DATA_ROOT": str(tmp_path / "root"),
        "COLOCATION_TLS_CERTIFICATE": str(pki.certificate),
        "COLOCATION_TLS_KEY": str(pki.key),
    }
    command = [sys.executable, "-m", "colocation.agent", "--host=127.0.0.1", "--port=0", "--health-port=0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        started = next(line for line in process.stderr if "health on" in line)
        port, health_port = re.search(r"on port (\d+), health on (\d+)", started).groups()
        until(lambda: get(f"http://127.0.0.1:{health_port}/readyz") == (200, "ok\n"))
        (tmp_path / "token").write_text(token())
        client = AgentClient(
            f"https://127.0.0.1:{port}", Credentials(tmp_path / "token", pki.ca), Timeouts(10.0, 60.0, 0.0)
        )
        with client, pytest.raises(AgentError, match="AuthenticationUnavailable"):
            client.status()
        process.terminate()
        process.stderr.read()
    assert process.returncode == 0


def test_a_process_without_an_api_server_exits(tmp_path: Path, pki: Pki) -> None:
    """Outside a pod and without KUBECONFIG the agent does not start, with a one-line error."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
    tls = [f"--tls-certificate={pki.certificate}", f"--tls-key={pki.key}"]
    command = [sys.executable, "-m", "colocation.agent", "--node-name=n", f"--data-root={tmp_path}", *tls]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, "or set KUBECONFIG" in ended.stderr, "Traceback" in ended.stderr) == (1, True, False)
