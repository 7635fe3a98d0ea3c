"""What a failed test leaves for anyone who looks into it, written at once: later tests, or the end, change the cluster.

``build/e2e/<test>/`` gets the objects, the events, each pod's log, and the logs of the cluster's own programs.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence

from demo.shell import REPOSITORY
from devcluster import paths

FOLDER = REPOSITORY / "build" / "e2e"
MOST_KEPT = 5
"""After so many failures of a story, the next ones follow from them."""
QUESTIONS = {
    "pods.txt": ("get", "pods", "--all-namespaces", "--output=wide"),
    "objects.yaml": ("get", "cg,ct,jobs,sparkapplications,pods", "--all-namespaces", "--output=yaml"),
    "events.txt": ("get", "events", "--all-namespaces", "--sort-by=.metadata.creationTimestamp"),
    "nodes.txt": ("describe", "nodes"),
}
_ANSWER_SECONDS = 60


def begin() -> None:
    """Forget what an earlier run left."""
    shutil.rmtree(FOLDER, ignore_errors=True)


def keep(test: str) -> str:
    """Write all of it; returns where it is, or the reason why it could not."""
    if FOLDER.exists() and len(list(FOLDER.iterdir())) >= MOST_KEPT:
        return f"no logs kept: {FOLDER} has those of the first {MOST_KEPT} failures"
    folder = FOLDER / "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in test)
    folder.mkdir(parents=True, exist_ok=True)
    if paths.LOGS.is_dir():
        shutil.copytree(paths.LOGS, folder / "cluster", dirs_exist_ok=True)
    for name, question in QUESTIONS.items():
        (folder / name).write_text(_kubectl(question))
    for namespace, pod in _pods():
        for name, more in (("log", ()), ("previous.log", ("--previous",))):
            said = _kubectl(("logs", pod, "--namespace", namespace, "--all-containers", "--prefix", *more))
            if more == () or not said.startswith("Error"):
                (folder / f"{namespace}.{pod}.{name}").write_text(said)
    return f"logs are kept in {folder}"


def _pods() -> list[tuple[str, str]]:
    """(namespace, name); none when the cluster does not answer."""
    try:
        items = json.loads(_kubectl(("get", "pods", "--all-namespaces", "--output=json")))["items"]
    except json.JSONDecodeError:
        return []
    return [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items]


def _kubectl(arguments: Sequence[str]) -> str:
    """What kubectl reports of the tests' own cluster, its errors too: there may be no cluster any more."""
    command = [str(paths.BIN / "kubectl"), "--kubeconfig", str(paths.KUBECONFIG), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS,
                              env={**os.environ, "KUBECONFIG": str(paths.KUBECONFIG)})
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Error: {error}"
    return done.stdout + done.stderr
