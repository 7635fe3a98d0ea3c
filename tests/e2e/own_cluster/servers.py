"""What a user's cluster has next to it: an image registry and an object store. Real ones, on the nodes' bridge."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs

from devcluster import binaries, network, paths

REGISTRY = f"{network.HOST_ADDRESS}:5000"
STORE = f"{network.HOST_ADDRESS}:7070"
ACCESS_KEY, SECRET_KEY = "lake-reader", "made-for-this-test"
BUCKET = "lake"
REGION = "us-east-2"
"""S3A's own, where neither the endpoint nor a setting states one."""
_START_SECONDS = 60.0
# They end with the test's process, however it ends.
_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


@contextmanager
def registry(folder: Path) -> Iterator[None]:
    """A registry without TLS, which the nodes' containerd is configured for."""
    hosts = paths.REGISTRIES / REGISTRY / "hosts.toml"
    hosts.parent.mkdir(parents=True)
    hosts.write_text(f'[host."http://{REGISTRY}"]\n')
    command = [str(binaries.CRANE.program("crane")), "registry", "serve", "--address", REGISTRY, "--disk", str(folder)]
    with _running(command, REGISTRY, {}, folder.with_suffix(".log")):
        yield


@contextmanager
def store(folder: Path, files: dict[str, Path]) -> Iterator[None]:
    """An S3 server whose bucket holds ``files`` by their names; put there by S3 itself, so that each has an ETag."""
    keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    command = [str(binaries.VERSITYGW.program("versitygw")), "--quiet", "--region", REGION, "--port", STORE]
    with _running([*command, "posix", str(folder)], STORE, keys, folder.with_suffix(".log")):
        lake = pyarrow.fs.S3FileSystem(
            access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint_override=f"http://{STORE}", region=REGION,
            allow_bucket_creation=True,
        )  # fmt: skip
        lake.create_dir(BUCKET)
        for name, path in files.items():
            with path.open("rb") as source, lake.open_output_stream(f"{BUCKET}/{name}") as target:
                shutil.copyfileobj(source, target)
        yield


@contextmanager
def _running(command: list[str], address: str, variables: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("w") as said:
        process = subprocess.Popen(
            [*_WITH_PARENT, *command], env={**os.environ, **variables}, stdout=said, stderr=said
        )  # fmt: skip
        try:
            _wait_until_it_listens(process, address, log)
            yield
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _wait_until_it_listens(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"nothing listens at {address}: {log.read_text()[-2000:]}")
