"""Exit codes and messages: 1 failed, 2 wrong usage, never a traceback."""

import json
from pathlib import Path

import pytest
from kubernetes.client import CustomObjectsApi
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, kube_config
from urllib3 import HTTPSConnectionPool
from urllib3.connection import HTTPSConnection
from urllib3.exceptions import MaxRetryError, NewConnectionError, SSLError

from colocation.cli.terminal import options
from colocation.submit.manifest import ManifestError
from colocation.submit.run import RunError

from .conftest import KUBECONFIG, Run

SERVER = HTTPSConnectionPool("10.0.0.1", 6443)
REFUSED = MaxRetryError(
    SERVER, "/", NewConnectionError(HTTPSConnection("10.0.0.1", 6443), "No connection: [Errno 111] Connection refused")
)
OTHER_CA = MaxRetryError(SERVER, "/", SSLError(OSError("[SSL] certificate verify failed: self-signed certificate")))


CANNOT = 'User "ann" cannot list resource "colocationgroups"'
LOAD = ("load", "orders", "--from", "s3a://lake/orders")


def answer(status: int, message: str) -> ApiException:
    error = ApiException(status=status, reason="Reason")
    error.body = json.dumps({"kind": "Status", "message": message})
    return error


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        pytest.param(ConfigException("no file"), 1, "no cluster is configured", id="no kubeconfig"),
        pytest.param(MaxRetryError(None, "/", None), 1, "the cluster cannot be reached: the API server", id="unknown"),
        pytest.param(REFUSED, 1, "https://10.0.0.1:6443: Connection refused; check the network", id="refused"),
        pytest.param(OTHER_CA, 1, "self-signed certificate; check its certificate-authority-data", id="another CA"),
        pytest.param(answer(401, "Unauthorized"), 1, "does not accept your credentials", id="401"),
        pytest.param(answer(403, f"groups is forbidden: {CANNOT}"), 1, f"do this: groups is forbidden: {CANNOT}; `col",
                     id="403"),
        pytest.param(answer(403, "exceeded quota"), 1, "the cluster refuses it: exceeded quota", id="quota"),
        pytest.param(answer(403, 'admission webhook "a" denied the request'), 1,
                     'the cluster refuses it: admission webhook "a" denied the request', id="webhook"),
        pytest.param(answer(500, "etcd is away"), 1, "the cluster answered 500: etcd is away", id="500"),
        pytest.param(RunError("it goes on"), 1, "error: it goes on", id="application"),
        pytest.param(ManifestError("spec lacks x"), 2, "error: spec lacks x", id="manifest"),
    ],
)
def test_errors_of_the_layers_below_become_messages(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, exit_code: int, message: str
) -> None:
    """Each has an exit code and words for people."""

    def refuse(context: str | None, namespace: str | None) -> None:
        raise error

    monkeypatch.setattr(options, "Cluster", refuse)
    done = run("groups")
    assert done.exit_code == exit_code
    assert message in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["nonsense"], id="no such command"),
        pytest.param(["plan"], id="plan without group and file"),
        pytest.param(["groups", "-o", "xml"], id="unknown format"),
        pytest.param(["load", "orders"], id="load without --from"),
        pytest.param(["load", "orders", "--from", "x", "--mode", "merge"], id="unknown mode"),
        pytest.param(["submit"], id="submit without a file"),
        pytest.param(["sql", "select 1", "--set", "novalue"], id="setting without a value"),
        pytest.param(["submit", "-f", "/does/not/exist"], id="no such manifest"),
        pytest.param(["plan", "--snapshot", "/does/not/exist"], id="no such snapshot"),
    ],
)
def test_wrong_usage_is_2(run: Run, arguments: list[str]) -> None:
    """Before any cluster is asked."""
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--context", "c", "groups"], "options follow the command: ", id="in front"),
        pytest.param(["load", "orders", "--from", " "], "--from is ' ': name a path", id="an empty path"),
        pytest.param(["load", "orders", "--from", "x", "--set", "=v"], "given '=v'", id="a setting without a name"),
        pytest.param(["sql", " "], "STATEMENT is empty", id="an empty statement"),
        pytest.param(["sql", "select 1", "--no-wait"], "takes no --no-wait", id="sql that does not wait"),
        pytest.param(
            ["compact", "orders", "--partition", "day"], "'day' is not COLUMN=VALUE; give e.g.", id="no value"
        ),
        pytest.param(
            ["drop-partitions", "orders", "--partition", "a=1/b"], "'b' is not COLUMN=VALUE", id="half a partition"
        ),
        pytest.param(["drain", "node-1", "--timeout", "5"], "--timeout needs --wait", id="a timeout of nothing"),
        pytest.param(["submit", "-f", "/does/not/exist"], "/does/not/exist cannot be read: No such", id="no such file"),
        pytest.param(["submit", "-f", "/"], "/ cannot be read: Is a directory; name a file", id="a folder"),
        pytest.param(["plan", "--snapshot", "/"], "/ cannot be read: Is a directory; name", id="a folder to plan"),
        pytest.param(["groups", "-n", "Bad/NS"], "'Bad/NS' given; allowed: at most 63", id="an impossible namespace"),
        pytest.param(["tables", "-n", ""], "'' given; allowed: at most 63", id="an empty namespace"),
        pytest.param(["nodes", "--operator-namespace", "A B"], "'A B' given; allowed: at", id="the operator's"),
        pytest.param([*LOAD, "--secret", "KEY=value"], "'KEY=value' given; allowed: a name", id="a key as a Secret"),
        pytest.param([*LOAD, "--secret", ""], "'' given; allowed: a name", id="an empty Secret"),
        pytest.param([*LOAD, "--service-account", "A B"], "'A B' given; allowed: a name", id="an impossible account"),
        pytest.param([*LOAD, "--image", "a b"], "'a b' given; allowed: an image", id="an impossible image"),
        pytest.param([*LOAD, "--format", ""], "--format is '': give a value, or leave", id="an empty format"),
        pytest.param([*LOAD, "--select", " "], "--select is ' ': give a value, or leave", id="an empty selection"),
        pytest.param([*LOAD, "--idempotency-key", ""], "--idempotency-key is ''", id="an empty key"),
        pytest.param([*LOAD, "--timeout", "nan"], "'nan' given; allowed: seconds, 0 or more", id="a timeout of nan"),
        pytest.param(["recover", "t", "--wait-seconds", "nan"], "'nan' given; allowed: seconds", id="a wait of nan"),
    ],
)
def test_a_half_right_command_shows_what_is_allowed(run: Run, arguments: list[str], message: str) -> None:
    """Before any cluster is asked; what was given is in the message."""
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "is not YAML", id="no YAML"),
        pytest.param("a: 1\n---\nb: 2\n", "holds 2 documents", id="two documents"),
        pytest.param("", "holds 0 documents", id="empty"),
        pytest.param("- a\n", "holds a YAML list; allowed: a mapping", id="a list"),
        pytest.param("[" * 5000, "is nested too deeply; name a file with a SparkApplication", id="too deep"),
    ],
)
def test_a_file_that_is_no_manifest_is_explained(run: Run, tmp_path: Path, text: str, message: str) -> None:
    """The message has what the file holds and what is allowed."""
    file = tmp_path / "app.yaml"
    file.write_text(text)
    done = run("submit", "-f", str(file))
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_file_that_is_no_text_is_refused(run: Run, tmp_path: Path) -> None:
    """A picture, or an archive: what it lacks, and what is wanted in its stead."""
    file = tmp_path / "app.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    for command in (["submit", "-f"], ["plan", "--snapshot"]):
        done = run(*command, str(file))
        assert done.exit_code == 2
        assert "app.yaml is not UTF-8 text (byte 0: invalid start byte); name a file" in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "Is a directory", id="a folder"),
        pytest.param(b"not: [yaml", "while parsing a flow sequence", id="no YAML"),
        pytest.param(b"[]", "list indices must be integers", id="a list"),
        pytest.param(b"\xff\xfe", "can't decode byte 0xff", id="no text"),
        pytest.param(b"", "file is empty", id="empty"),
        pytest.param(b"a: b", "Expected key current-context", id="another YAML"),
    ],
)
def test_a_kubeconfig_that_cannot_be_read_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, message: str
) -> None:
    """The file, what is wrong with it, and how to choose another one."""
    file = tmp_path / "kubeconfig"
    file.mkdir() if content is None else file.write_bytes(content)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    done = run("groups")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: no cluster is configured (")
    for part in (str(file), message, "set KUBECONFIG"):
        assert part in done.stderr


@pytest.mark.parametrize(
    "answered",
    [pytest.param("<html>log in</html>", id="a page"), pytest.param([], id="a list"), pytest.param({}, id="no items"),
     pytest.param({"items": None}, id="null")],
)  # fmt: skip
def test_a_server_that_is_no_api_server_is_called_so(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answered: object
) -> None:
    """A proxy's login page with 200, for example."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG % 1)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr(CustomObjectsApi, "list_namespaced_custom_object", lambda *_arguments: answered)
    done = run("groups")
    assert done.exit_code == 1
    assert "the server does not answer like a Kubernetes API server" in done.stderr


@pytest.mark.parametrize(
    ("snapshot", "messages"),
    [
        pytest.param("{", ["is not JSON"], id="no JSON"),
        pytest.param(
            '{"now": 1, "nodes": [{"name": "n", "weight": -1}], "groups": []}', ["nodes[0].weight", "-1"], id="value"
        ),
        pytest.param(
            '{"now": "2026-11-21T00:00:00Z", "nodes": [], "groups": [{"namespace": "s", "name": "g", '
            '"spec": {"bucketKey": ["array<int>"], "buckets": 0, "replicas": 1}}]}',
            ["groups[0].spec.bucketKey", "groups[0].spec.buckets", "given 0"], id="two fields at once"),
    ],
)  # fmt: skip
def test_a_wrong_snapshot_is_refused_by_field(run: Run, snapshot: str, messages: list[str]) -> None:
    """Every wrong field is named by its path, with what it holds."""
    done = run("plan", "--snapshot", "-", stdin=snapshot)
    assert done.exit_code == 2
    for message in messages:
        assert message in done.stderr
