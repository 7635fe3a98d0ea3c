"""What the command offers next to loads and joins, on an installation as the README makes it."""

import json
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUCKETS, REPLICAS, NODES = 8, 2, 3
PRIVATE_KEY = "PRIVATE KEY"
"""Agents have such keys, and the chart makes one."""


def check(tools: Path, folder: Path, secrets: tuple[str, ...]) -> None:
    """``secrets``: words that stand in the user's Secrets; ``folder``: an empty one."""
    colocation = str(tools / "colocation")
    _check_words(colocation)
    _check_completion(tools, colocation)
    _check_report(colocation, folder, secrets)
    with _page(colocation) as url:
        _check_page(url)


def _run(*command: str, **variables: str) -> str:
    done = subprocess.run(
        ["env", *(f"{name}={value}" for name, value in variables.items()), *command],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def _check_words(colocation: str) -> None:
    findings = json.loads(_run(colocation, "doctor", "-n", "shop", "-o", "json"))
    assert [one for one in findings if one["level"] != "ok"] == []
    assert "shop        sales" in _run(colocation, "groups", "-A")
    assert {"orders", "lineitem"} <= set(_run(colocation, "tables", "-A").split())
    assert "buckets: " in _run(colocation, "advise", "--size", "500Gi", "--cores", "96", "--nodes", "12")


def _check_completion(tools: Path, colocation: str) -> None:
    """bash completes a group's name, which the API server tells."""
    script = f"""
        PATH="{tools}:$PATH"; source <({colocation} completion bash)
        COMP_WORDS=(colocation show -n shop sa); COMP_CWORD=4; _colocation_completion colocation sa
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    assert _run("bash", "-euo", "pipefail", "-c", script).split() == ["sales"]


def _check_report(colocation: str, folder: Path, secrets: tuple[str, ...]) -> None:
    """Objects and logs are in the archive; nothing secret is."""
    archive = folder / "report.tar.gz"
    _run(colocation, "report", "--file", str(archive))
    with tarfile.open(archive) as held:
        held.extractall(folder, filter="data")
    files = {path.name: path.read_text() for path in (folder / "report").rglob("*") if path.is_file()}
    assert "name: sales" in files["groups.yaml"] and '"map"' in files["snapshot.json"]
    missing = [name for name, text in files.items() if "not collected" in text and ".previous" not in name]
    assert missing == []
    assert sum(name.startswith("colocation-agent") and not name.endswith("previous.log") for name in files) == NODES
    for word in (*secrets, PRIVATE_KEY):
        assert not [name for name, text in files.items() if word in text], word


@contextmanager
def _page(colocation: str) -> Iterator[str]:
    command = [colocation, "ui", "--no-browser", "-n", "shop"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _check_page(url: str) -> None:
    """The page, and the group's matrix: every replica is complete."""
    assert "<html" in _get(url)
    overview: dict[str, Any] = json.loads(_get(f"{url}api/overview"))
    assert (overview["problems"], len(overview["nodes"])) == ([], NODES)
    page = json.loads(_get(f"{url}api/group?namespace=shop&name=sales"))
    cells = [cell[1] for row in page["rows"] for cell in row["cells"]]
    assert (page["stable"], page["isPlanKnown"], cells) == (True, True, ["complete"] * BUCKETS * REPLICAS)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())
