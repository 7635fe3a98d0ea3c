"""Kubeconfigs whose credentials come from a program: what is said when it gives none."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import kube_config

from colocation.cli import connection

from .conftest import Run

API_VERSION = "client.authentication.k8s.io/v1"
CREDENTIAL = {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": {"token": "secret"}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the kubeconfig, and the first one of PATH."""
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def write_kubeconfig(folder: Path, **plugin: Any) -> None:
    """As `aws eks update-kubeconfig` writes it; nothing listens at the server's address."""
    made = {"apiVersion": API_VERSION, "command": "aws", "args": ["eks", "get-token", "--cluster-name", "one"]}
    (folder / "kubeconfig").write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{"name": "one", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "one", "user": {"exec": {**made, **plugin}}}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one", "namespace": "shop"}}],
    }))  # fmt: skip


def write_plugin(folder: Path, script: str) -> None:
    """The program `aws`."""
    (folder / "aws").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "aws").chmod(0o755)


@pytest.mark.parametrize("current", ["one", "gone", None])
def test_the_namespace_is_that_of_the_chosen_context(folder: Path, current: str | None) -> None:
    """Else `colocation --context two recover` works on another namespace. Often no context is the current one."""
    (folder / "kubeconfig").write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", **({"current-context": current} if current else {}),
        "clusters": [{"name": name, "cluster": {"server": "http://127.0.0.1:1"}} for name in ("one", "two")],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"shop-{name}"}}
                     for name in ("one", "two")],
    }))  # fmt: skip
    assert connection.namespace_of("two") == "shop-two"
    assert connection.namespace_of(None) == ("shop-one" if current == "one" else None)
    assert connection.namespace_of("three") is None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("echo 'SSO session has expired' >&2; exit 255", "process returned 255. SSO session has expired",
                     id="fails"),
        pytest.param("exit 1", "process returned 1", id="fails without a message"),
        pytest.param("echo '<html>'", "failed to decode process output", id="no JSON"),
        pytest.param("echo '[]'", "missing key 'apiVersion'", id="a list"),
        pytest.param("echo 1", "not iterable", id="a number"),
        pytest.param(f"echo '{json.dumps({**CREDENTIAL, 'status': {}})}'", "missing token", id="no token"),
        pytest.param(f"echo '{json.dumps({**CREDENTIAL, 'apiVersion': 'v0'})}'", "api version v0 does not match",
                     id="another version"),
    ],
)  # fmt: skip
def test_a_credential_plugin_that_fails_is_quoted(run: Run, folder: Path, script: str, said: str) -> None:
    """Its command, what it said, and what to do; the API server is not asked without credentials."""
    write_kubeconfig(folder)
    write_plugin(folder, script)
    done = run("groups")
    assert done.exit_code == 1
    assert done.stderr.startswith(
        "error: the kubeconfig gets its credentials by `aws eks get-token --cluster-name one`, which failed: "
    )
    for part in (said, "; run it by itself to see why, log in again, or choose another --context"):
        assert part in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_credential_plugin_that_is_not_installed_is_named(run: Run, folder: Path) -> None:
    """With the hint of those who wrote the kubeconfig."""
    write_kubeconfig(folder, command="no-such-auth-plugin", args=None, installHint="See example.com")
    done = run("groups")
    assert (done.exit_code, done.stderr) == (1, (
        "error: the kubeconfig gets its credentials by `no-such-auth-plugin`, which was not found; install it, put "
        "its folder on PATH, or choose another --context\nSee example.com\n"
    ))  # fmt: skip


def test_a_credential_plugin_without_a_command(run: Run, folder: Path) -> None:
    """The kubeconfig is at fault."""
    write_kubeconfig(folder, command=None)
    done = run("groups")
    assert done.exit_code == 1
    assert "which failed: Invalid kube-config file. Expected key command in" in done.stderr


def test_a_credential_plugin_that_hangs_is_named_meanwhile(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for somebody who logs in, so it is not ended."""
    monkeypatch.setattr(connection, "SILENCE_SECONDS", 0.05)
    write_kubeconfig(folder)
    write_plugin(folder, f"sleep 1; echo '{json.dumps(CREDENTIAL)}'")
    done = run("groups")
    assert "waiting for the kubeconfig's credentials: `aws eks get-token --cluster-name one` has" in done.stderr
    assert "127.0.0.1:1: Connection refused" in done.stderr


def test_credentials_of_a_plugin_are_sent(folder: Path) -> None:
    """As the bearer token of each request."""
    write_kubeconfig(folder)
    write_plugin(folder, f"echo '{json.dumps(CREDENTIAL)}'")
    connected = connection.connect(None)
    assert connected.configuration.get_api_key_with_prefix("BearerToken") == "Bearer secret"
