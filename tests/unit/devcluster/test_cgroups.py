"""Who belongs to a control group, and so may be killed with it."""

from pathlib import Path

import pytest

from devcluster import cgroups

V1 = "9:pids:/colocation-devcluster/{0}\n8:memory:/colocation-devcluster/{0}\n"


@pytest.mark.parametrize(
    ("membership", "group", "expected"),
    [
        pytest.param(V1.format("node-1/system"), "colocation-devcluster/node-1", True, id="in a group beneath"),
        pytest.param(V1.format("node-1"), "colocation-devcluster/node-1", True, id="in the group itself"),
        pytest.param(V1.format("node-10/system"), "colocation-devcluster/node-1", False, id="name begins alike"),
        pytest.param("9:pids:/\n", "colocation-devcluster", False, id="in no group"),
        pytest.param("0::/colocation-devcluster/node-2/x\n", "colocation-devcluster", True, id="cgroup v2"),
        pytest.param("0::/docker/1f/colocation-devcluster/a\n", "colocation-devcluster", True, id="in a container"),
    ],
)
def test_membership(membership: str, group: str, expected: bool) -> None:
    """A process is hit only where its own membership shows it."""
    assert cgroups.is_member(membership, group) is expected


def test_a_plain_folder_is_no_hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that were written into its files would look like members that never die."""
    (tmp_path / "stray").mkdir()
    (tmp_path / "pids").mkdir()
    monkeypatch.setattr(cgroups, "MOUNT", tmp_path)
    monkeypatch.setattr(Path, "is_mount", lambda folder: folder.name == "pids")
    assert cgroups.hierarchies() == [tmp_path / "pids"]
