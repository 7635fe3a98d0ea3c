"""A cluster that a checkout keeps is ended by another one only when somebody asks for it."""

from pathlib import Path

import pytest

from devcluster import cluster, kept, paths
from devcluster.errors import DevclusterError

OTHER = "/home/me/other"


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the keeper's name is."""
    monkeypatch.setattr(paths, "STATE", tmp_path)
    monkeypatch.setattr(paths, "KEPT", tmp_path / "kept-by")
    return paths.KEPT


@pytest.mark.parametrize(("keeper", "running", "environment"), [
    pytest.param(None, True, {}, id="no one keeps it: a killed run left it"),
    pytest.param(str(kept.CHECKOUT), True, {}, id="this checkout keeps it"),
    pytest.param(OTHER, False, {}, id="it does not run any more"),
    pytest.param(OTHER, True, {"REPLACE": "1"}, id="asked to replace it"),
    pytest.param(OTHER, True, {"CI": "true"}, id="continuous integration"),
])  # fmt: skip
def test_it_may_be_replaced(record: Path, keeper: str | None, running: bool, environment: dict[str, str]) -> None:
    """No one would miss it."""
    if keeper is not None:
        record.write_text(keeper)
    kept.require_replaceable(lambda: running, environment)


@pytest.mark.parametrize("environment", [{}, {"REPLACE": "0"}, {"CI": "false"}])
def test_another_checkouts_is_left_alone(record: Path, environment: dict[str, str]) -> None:
    """The message names whose it is, and both ways on."""
    record.write_text(OTHER)
    with pytest.raises(DevclusterError, match=f"{OTHER} keeps a cluster.*make cluster-down.*REPLACE=1"):
        kept.require_replaceable(lambda: True, environment)


@pytest.mark.parametrize(("keeper", "ended"), [(None, 1), (str(kept.CHECKOUT), 1), (OTHER, 0)])
def test_a_run_ends_no_cluster_of_another(
    record: Path, keeper: str | None, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the run failed because it could not replace that one."""
    if keeper is not None:
        record.write_text(keeper)
    downs: list[bool] = []
    monkeypatch.setattr(cluster, "down", lambda: downs.append(True))
    cluster.end_run()
    assert len(downs) == ended


def test_keeping_is_remembered(record: Path) -> None:
    """By the checkout's path."""
    assert kept.keeper() is None
    kept.keep()
    assert kept.keeper() == kept.CHECKOUT


def test_anothers_is_not_taken_over(record: Path) -> None:
    """A run with KEEP=1 that could not begin."""
    record.write_text(OTHER)
    kept.keep()
    assert kept.keeper() == Path(OTHER)
