"""examples/clouds/local-disk.sh on real loop devices, in a mount namespace of its own: nothing is left behind."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "clouds" / "local-disk.sh"
DISK_MIB = 64


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """An empty disk: a loop device over a sparse file."""
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    device = run("losetup", "--find", "--show", str(image)).strip()
    yield device
    run("losetup", "--detach", device)


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def mounted(script: str, disk: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A shell that runs ``mount_disk`` as the DaemonSet does; mounts end with it."""
    head = f'mount_disk() {{ DISK="{disk}" MOUNT_POINT="{folder}/data" sh "{SCRIPT}"; }}\n'
    return subprocess.run(
        ["unshare", "--mount", "sh", "-euc", head + script], capture_output=True, text=True, check=False
    )


def test_an_empty_disk_is_formatted_once_and_keeps_its_files(disk: str, tmp_path: Path) -> None:
    """Repeated, and after a reboot, which unmounts it."""
    again = "mount_disk; echo row > $PWD/data/file; mount_disk; umount data; mount_disk; cat data/file"
    done = mounted(f"cd {tmp_path}; {again}", disk, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"local-disk: made a file system on {disk}",
        f"local-disk: {disk} is mounted at {tmp_path}/data",
        f"local-disk: {tmp_path}/data is mounted already",
        f"local-disk: {disk} holds ext4; it is mounted as it is",
        f"local-disk: {disk} is mounted at {tmp_path}/data",
        "row",
    ]


@pytest.mark.parametrize(
    ("before", "why"),
    [
        pytest.param("mkswap {disk}", "holds swap: it is not formatted", id="swap"),
        pytest.param("printf 'LUKS\\272\\276\\0\\001' | dd of={disk}", "holds crypto_LUKS: it is not", id="encrypted"),
        pytest.param(
            "printf '\\0\\0\\0\\0\\203\\0\\0\\0\\001\\0\\0\\0\\0\\010' | dd of={disk} bs=1 seek=446; "
            "printf '\\125\\252' | dd of={disk} bs=1 seek=510",
            "holds dos: it is not", id="partitions",
        ),
    ],
)
def test_a_disk_that_is_in_use_is_never_formatted(disk: str, tmp_path: Path, before: str, why: str) -> None:
    """Its first megabytes stay as they are."""
    prepare = f"({before.format(disk=disk)}) >/dev/null 2>&1"
    done = mounted(f"{prepare}; sha256sum < {disk}; mount_disk || true; sha256sum < {disk}", disk, tmp_path)
    first, last = done.stdout.split()[0], done.stdout.split()[-2]
    assert first == last
    assert why in done.stderr


@pytest.mark.parametrize(
    ("disks", "why"),
    [
        pytest.param("/dev/none", "/dev/none, which is no block device", id="no such device"),
        pytest.param("/dev/a /dev/b", r"found 2 local disks (/dev/a /dev/b): make one array", id="several"),
    ],
)
def test_what_is_no_single_disk_is_refused(disks: str, why: str, tmp_path: Path) -> None:
    """With what to do."""
    done = mounted("mount_disk", disks, tmp_path)
    assert done.returncode == 1
    assert why in done.stderr
