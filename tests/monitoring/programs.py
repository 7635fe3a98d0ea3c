"""promtool and prometheus: the machine's own, or those of Debian's package, unpacked into the cache.

The package is not installed: that would start a server on the machine of anyone who runs the tests.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from devcluster import locks, paths

DOWNLOAD_SECONDS = 120
PACKAGE = "prometheus"


class NoPrometheus(Exception):
    """The programs are not here, and cannot be had; the message gives the reason."""


def program(name: str) -> Path:
    """The path of ``promtool`` or ``prometheus``.

    Raises:
        NoPrometheus: neither on the PATH, nor in the cache, nor to be had by apt-get.
    """
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    folder = paths.cache() / PACKAGE
    with locks.exclusive(folder.with_suffix(".lock"), "fetches prometheus"):
        if not folder.exists():
            _fetch(folder)
    return folder / "usr" / "bin" / name


def _fetch(folder: Path) -> None:
    """Unpack Debian's package there; package lists that are missing or old are renewed once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        try:
            _run(temporary, "apt-get", "download", PACKAGE)
        except NoPrometheus:
            _run(temporary, "apt-get", "update", "--quiet=2")
            _run(temporary, "apt-get", "download", PACKAGE)
        [package] = Path(temporary).glob("*.deb")
        unpacked = Path(temporary) / PACKAGE
        _run(temporary, "dpkg-deb", "--extract", str(package), str(unpacked))
        unpacked.rename(folder)


def _run(folder: str, program: str, *arguments: str) -> None:
    limits = ("-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30") if program == "apt-get" else ()
    command = [program, *limits, *arguments]
    advice = f"install the package {PACKAGE}, or put promtool and prometheus on the PATH"
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=DOWNLOAD_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPrometheus(f"{' '.join(command)}: {error}; {advice}") from error
    if done.returncode != 0:
        raise NoPrometheus(f"{' '.join(command)}: {done.stderr.strip()}; {advice}")
