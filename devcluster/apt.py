"""The machine's own package sources: images are made from them, so no mirror is named in this project."""

import re
import shutil
from pathlib import Path

from devcluster import shell
from devcluster.errors import DevclusterError

APT = Path("/etc/apt")
SOURCE_LINE = re.compile(r"^deb\s+(?:\[[^\]]*\]\s+)?(?P<address>\S+)\s+(?P<suite>\S+)\s")
REACHABILITY_SETTINGS = ("Acquire::http", "Acquire::https", "Acquire::Check-")


def mirror(suite: str, apt: Path = APT) -> str:
    """The address that the machine gets a release's main packages from."""
    for path in source_files(apt):
        text = path.read_text()
        found = _from_deb822(text, suite) if path.suffix == ".sources" else _from_lines(text, suite)
        if found:
            return found
    raise DevclusterError(f"no package source in {apt} has the suite {suite}, which the base image is made from")


def source_files(apt: Path = APT) -> list[Path]:
    """The files that name package sources."""
    folder = apt / "sources.list.d"
    candidates = [apt / "sources.list", *sorted(folder.glob("*.list")), *sorted(folder.glob("*.sources"))]
    return [path for path in candidates if path.is_file()]


def copy_sources(root: Path, suite: str, apt: Path = APT) -> None:
    """Let `apt-get` in a build use the same sources, but only the distribution's: its releases have their keys."""
    target = root / "etc/apt"
    for path in source_files(apt):
        text = path.read_text()
        if _from_deb822(text, suite) or _from_lines(text, suite):
            (target / "sources.list").unlink(missing_ok=True)
            shutil.copy(path, target / path.relative_to(apt))
    (target / "apt.conf.d/99devcluster").write_text(acquire_settings(shell.run("apt-config", "dump", "Acquire")))


def acquire_settings(dump: str) -> str:
    """Of the machine's apt settings those that decide whether its sources can be reached: proxies and checks of age."""
    return "".join(f"{line}\n" for line in dump.splitlines() if line.startswith(REACHABILITY_SETTINGS))


def _from_lines(text: str, suite: str) -> str | None:
    matches = (SOURCE_LINE.match(line) for line in text.splitlines())
    return next((str(match["address"]) for match in matches if match and match["suite"] == suite), None)


def _from_deb822(text: str, suite: str) -> str | None:
    for paragraph in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = dict(re.findall(r"^(\w[\w-]*):\s*(.*)$", paragraph, re.MULTILINE))
        if suite in fields.get("Suites", "").split():
            return fields["URIs"].split()[0]
    return None
