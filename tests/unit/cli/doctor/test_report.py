"""`colocation report`: what is in the archive, and what is not."""

import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiException

from colocation.cli.doctor import report
from colocation.cli.doctor.report import Source, redact_object, redact_text

from ..conftest import FakeCluster, Run

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzcGFyayJ9.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(f"Authorization: Bearer {TOKEN}", "Authorization: Bearer REDACTED", id="bearer"),
        pytest.param(f"token {TOKEN} refused", "token REDACTED refused", id="web token"),
        pytest.param("key AKIAIOSFODNN7EXAMPLE", "key REDACTED", id="AWS key"),
        pytest.param("jdbc://etl:hunter2@db/shop", "jdbc://etl:REDACTED@db/shop", id="URL"),
        pytest.param("fs.s3a.secret=abc, next", "fs.s3a.secret=REDACTED, next", id="setting"),
        pytest.param("--conf spark.hadoop.fs.s3a.secret.key=abc x", "--conf spark.hadoop.fs.s3a.secret.key=REDACTED x",
                     id="S3A's key"),
        pytest.param("fs.azure.account.key.a.dfs.core.windows.net=ab+c/d==",
                     "fs.azure.account.key.a.dfs.core.windows.net=REDACTED", id="Azure's key"),
        pytest.param("AWS_SESSION_TOKEN=ab/c", "AWS_SESSION_TOKEN=REDACTED", id="variable"),
        pytest.param("Authorization: Basic dXNlcjpodW50ZXI=", "Authorization: Basic REDACTED", id="basic"),
        pytest.param("GET /b/k?X-Amz-Signature=0af1&X-Amz-Date=2", "GET /b/k?X-Amz-Signature=REDACTED&X-Amz-Date=2",
                     id="presigned URL"),
        pytest.param("https://a.blob/x?sv=1&sig=ab%2B&se=2", "https://a.blob/x?sv=1&sig=REDACTED&se=2", id="SAS"),
        pytest.param("tokenFile=/var/run/x secretName: lake", "tokenFile=/var/run/x secretName: lake", id="names"),
        pytest.param('{"password": "hunter2"}', '{"password": "REDACTED"}', id="JSON"),
        pytest.param("-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----", "REDACTED", id="private key"),
        pytest.param("bucket 3 of orders is complete", "bucket 3 of orders is complete", id="nothing"),
    ],
)
def test_credentials_in_text(text: str, left: str) -> None:
    """Logs say all sorts of things."""
    assert redact_text(text) == left


def test_credentials_in_objects() -> None:
    """Names of variables and of Secrets stay: they say what is wrong, and give nothing away."""
    reference = {"secretKeyRef": {"name": "lake", "key": "id"}}
    pod = {
        "metadata": {
            "name": "p", "managedFields": [{}],
            "annotations": {"colocation.dev/drain": "x", "vault/role": "etl"},
        },
        "spec": {"containers": [{"env": [{"name": "A", "value": "hunter2"}, {"name": "B", "valueFrom": reference}]}]},
        "clientToken": "hunter2", "secretName": "lake",
    }  # fmt: skip
    assert redact_object(pod) == {
        "metadata": {"name": "p", "annotations": {"colocation.dev/drain": "x"}},
        "spec": {"containers": [{"env": [{"name": "A", "value": "REDACTED"}, {"name": "B", "valueFrom": reference}]}]},
        "clientToken": "REDACTED", "secretName": "lake",
    }


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> None:
    def forbidden() -> str:
        raise ApiException(status=403, reason="nodes is forbidden")

    found = [
        Source("groups.yaml", lambda: "name: sales\n"), Source("nodes.yaml", forbidden),
        Source("logs/operator.log", lambda: f"first\nBearer {TOKEN}\n"),
    ]  # fmt: skip
    monkeypatch.setattr(report, "Cluster", lambda context, namespace: cluster)
    monkeypatch.setattr(report, "sources", lambda cluster, namespace: iter(found))


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read().decode() for one in archive}  # type: ignore[union-attr]


def test_an_archive_for_its_owner(run: Run, collected: None, tmp_path: Path) -> None:
    """It begins with a table of contents; files that may not be read have the reason; tokens are redacted."""
    path = tmp_path / "r.tar.gz"
    done = run("report", "-o", str(path))
    assert done.exit_code == 0, done.output
    assert f"written to {path}" in done.stdout
    assert done.stderr.startswith("warning: not collected, for the reason in each of these files: nodes.yaml; who has ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    files = contents(path)
    assert list(files) == ["r/README.txt", "r/groups.yaml", "r/nodes.yaml", "r/logs/operator.log"]
    assert "Not held: Secrets" in files["r/README.txt"]
    assert "logs/operator.log: 22 bytes" in files["r/README.txt"]
    assert files["r/nodes.yaml"].startswith("not collected: the cluster refuses it")
    assert files["r/logs/operator.log"] == "first\nBearer REDACTED\n"


def test_a_file_is_not_written_over(run: Run, collected: None, tmp_path: Path) -> None:
    """Somebody may have gathered it before."""
    path = tmp_path / "r.tar.gz"
    path.write_text("mine")
    done = run("report", "-o", str(path))
    assert (done.exit_code, path.read_text()) == (1, "mine")
    assert "choose another one by -o" in done.stderr


def test_its_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a long log is kept; in place of what does not fit is a note."""
    monkeypatch.setattr(report, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(report, "MAX_TOTAL_BYTES", 15)
    log: Any = lambda: "x" * 100 + "the end"  # noqa: E731
    files = report.collect(Source(name, log) for name in ("a", "b", "c"))
    assert (files["a"], files["b"]) == (b"xxxthe end", b"e end"[-5:])
    assert files["c"] == b"not collected: too much\n"
