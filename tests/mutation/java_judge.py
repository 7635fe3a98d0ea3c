"""Judges changes of Java's classes by JUnit's tests and by Spark's, in JVMs that are already running."""

import json
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.control_plane import ControlPlane

from .agents import Agents, JavaMutant, Runs, chosen
from .judge import run

MOST_UNUSABLE = 5
"""Tests that fail a second time, also without a mutant: not repeatable, or else the cluster is broken."""
KINDS = ("ct", "cg", "configmap", "secret", "lease", "pod", "job")
"""Of the objects that tests make in a namespace."""
BROKEN = "killed: the tests' cluster is broken after it"


class JavaJudge:
    """A pytest plugin that judges mutants in the place of running the tests.

    Args:
        agents: of all JVMs that the tests start.
        kept: a file per test file with its ``Runs``; a file with tests that are missing there is run first.
        seconds: of tests for a mutant; they end at the first failure.
    """

    def __init__(self, agents: Agents, kept: Path, seconds: float) -> None:
        self.agents, self.kept, self.seconds = agents, kept, seconds
        self.verdicts = agents.folder / "verdicts"
        self.mutants: Sequence[JavaMutant] = ()
        self.unusable: list[pytest.Item] = []
        self.plane: ControlPlane | None = None

    def begin(self, mutants: Sequence[JavaMutant]) -> None:
        """The next tests judge these: ``verdicts`` gets a line for each; fewer if the tests' cluster breaks."""
        self.mutants = mutants
        self.verdicts.write_text("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Keep the API server."""
        made = yield
        if fixturedef.argname == "plane":
            self.plane = made
        return made

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the files that were not run yet, then judge."""
        files: dict[Path, list[pytest.Item]] = {}
        for item in session.items:
            files.setdefault(item.path, []).append(item)
        ran: Runs = {}
        for path, items in files.items():
            kept = self.kept / f"{path.stem}.json"
            found = json.loads(kept.read_text()) if kept.exists() else {}
            if any(item.nodeid not in found for item in items):
                found |= dict(self._traced(items, session.items))
                kept.write_text(json.dumps(found))
            ran.update(found)
        for mutant in self.mutants:
            verdict = self._judged(mutant, session.items, ran)
            with self.verdicts.open("a") as verdicts:
                verdicts.write(f"{verdict}\n")
            if verdict == BROKEN:
                break
        return True

    def _traced(self, items: Sequence[pytest.Item], others: Sequence[pytest.Item]) -> Iterator[tuple[str, object]]:
        self.agents.take_lines()
        for place, item in enumerate(items):
            seconds, passed = run(item, items[place + 1 : place + 2] or _elsewhere(item, others))
            lines = self.agents.take_lines()
            print(f"{seconds:.1f} s, {len(lines)} lines{'' if passed else ', FAILED'}: {item.nodeid}", flush=True)
            self.verdicts.touch()  # a sign of life
            yield item.nodeid, (seconds, sorted(lines) if passed else [])

    def _judged(self, mutant: JavaMutant, items: Sequence[pytest.Item], ran: Runs) -> str:
        survived = 0
        by_name = {item.nodeid: item for item in items if item not in self.unusable}
        for name in chosen(list(by_name), mutant, ran, self.seconds):
            item = by_name[name]
            with self.agents.changed(mutant):
                passed = self._passes(item, items)
            if passed:
                survived += 1
            elif self._passes(item, items):
                return f"killed by {item.nodeid}"
            else:
                self.unusable.append(item)
                if len(self.unusable) == MOST_UNUSABLE:
                    return BROKEN
        of_all = sum(mutant.line in ran[item.nodeid][1] for item in items)
        return f"survived {survived} of {of_all} tests that run it" if survived else "no test runs it"

    def _passes(self, item: pytest.Item, items: Sequence[pytest.Item]) -> bool:
        """Whether it passes with fixtures of its own, all but the cluster's, and in a new namespace."""
        module = item.getparent(pytest.Module)
        assert module is not None
        self._remove_namespace(getattr(module.obj, "NAMESPACE", ""))
        return run(item, _elsewhere(item, items))[1]

    def _remove_namespace(self, name: str) -> None:
        """What a namespace's controller does, which test planes lack."""
        if self.plane and self.plane.kubectl("get", "namespace", name).returncode == 0:
            self.plane.kubectl("delete", f"--namespace={name}", "--all", ",".join(KINDS))
            self.plane.kubectl("delete", "namespace", name, "--wait=false")
            empty = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}}
            self.plane.kubectl("replace", f"--raw=/api/v1/namespaces/{name}/finalize", "-f-", stdin=json.dumps(empty))


def _elsewhere(item: pytest.Item, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """A test of another file, if there is one: as the next one, it keeps the cluster and ends the file's fixtures."""
    return [other for other in items if other.path != item.path][:1]
