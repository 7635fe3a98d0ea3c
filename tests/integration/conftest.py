"""One bare control plane with our CRDs for all integration tests of a run."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .accounts import Account, running_account
from .control_plane import ControlPlane, running_control_plane, running_plane
from .installation import Installation

SHOWN_LOG_CHARACTERS = 4000


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver, built where they are not there yet."""
    with running_control_plane() as plane:
        yield plane


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """One with our kinds for a file alone, as operators and webhooks concern all of it; with the file's NAMESPACES."""
    with running_plane() as own:
        for namespace in getattr(request.module, "NAMESPACES", ()):
            assert own.kubectl("create", "namespace", namespace).returncode == 0
        yield own


@pytest.fixture(scope="session")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with the CRDs served."""
    control_plane.serve_crds()
    return control_plane


@pytest.fixture
def namespace(cluster: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own; its objects are deleted afterwards (no controller would do it)."""
    name = f"test-{abs(hash(request.node.nodeid)) % 10**9}"
    assert cluster.kubectl("create", "namespace", name).returncode == 0
    yield name
    cluster.kubectl("delete", "colocationgroups,colocatedtables", "--all", "--namespace", name)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def account(cluster: ControlPlane, tmp_path: Path) -> Iterator[Account]:
    """An account next to a table of a group of another namespace."""
    with running_account(cluster, tmp_path) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The report of a failed test ends with what the operator printed last: it may have ended, which no wait sees."""
    report = yield
    installation = getattr(item, "funcargs", {}).get("installation")
    if report.failed and isinstance(installation, Installation):
        report.sections.append(("The operator's log", installation.operator_log.read_text()[-SHOWN_LOG_CHARACTERS:]))
    return report
