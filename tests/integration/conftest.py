"""One bare control plane for all integration tests of a run."""

from collections.abc import Iterator

import pytest

from devcluster.errors import DevclusterError

from .control_plane import ControlPlane, running_control_plane


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver; skipped where their programs cannot be built."""
    try:
        with running_control_plane() as plane:
            yield plane
    except DevclusterError as error:
        pytest.skip(str(error))
