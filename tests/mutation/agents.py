"""The Java agent that changes our classes in running JVMs and notes the lines that they run (``java_agent/``)."""

import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

SOURCES = Path(__file__).with_name("java_agent")
ASM = next(Path(pyspark.__file__).parent.glob("jars/xbean-asm*.jar"))
"""Spark's own reader and writer of class files."""
ANSWER_SECONDS = 20
Runs = dict[str, tuple[float, list[str]]]
"""By test: the seconds that it took, and the lines that it ran (``class:line``)."""


@dataclass(frozen=True)
class JavaMutant:
    """``place``: the class and the number of the change in it, as the agent knows it. ``line``: ``class:line``."""

    place: str
    method: str
    line: str
    change: str

    def __str__(self) -> str:
        return f"{self.line} {self.method}: {self.change} ({self.place})"


def chosen(names: Sequence[str], mutant: JavaMutant, runs: Runs, most_seconds: float) -> list[str]:
    """Of these tests those that run the mutant's line, within the time: those that run the fewest lines first."""
    found: list[str] = []
    spent = 0.0
    for name in sorted(names, key=lambda name: len(runs[name][1])):
        if mutant.line in runs[name][1]:
            spent += runs[name][0]
            if found and spent > most_seconds:
                break
            found.append(name)
    return found


class Agents:
    """The JVMs that were started with ``java_options``.

    Args:
        folder: where the agent is built, and where its JVMs leave their ports and lines.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jar = folder / "agent.jar"
        self.java_options = f"-javaagent:{self.jar}={folder}"

    def build(self) -> None:
        """Compile the agent."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as made:
            classes = Path(made, "classes")
            javac = ["javac", "-cp", str(ASM), "-d", str(classes), *map(str, SOURCES.glob("*.java"))]
            subprocess.run(javac, check=True)
            manifest = Path(made, "manifest")
            manifest.write_text("Premain-Class: Agent\nCan-Retransform-Classes: true\n")
            subprocess.run(["jar", "cfm", str(self.jar), str(manifest), "-C", str(classes), "."], check=True)

    def mutants_of(self, jar: Path) -> list[JavaMutant]:
        """All changes that the agent can make in a jar."""
        command = ["java", "-cp", f"{self.jar}:{ASM}", "Agent", str(jar)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = []
        for place, method, line, change in (row.split("\t") for row in printed.splitlines()):
            found.append(JavaMutant(place, method, f"{place.partition('#')[0]}:{line}", change))
        return found

    @contextlib.contextmanager
    def changed(self, mutant: JavaMutant) -> Iterator[None]:
        """The mutant is in all JVMs, and in those that start."""
        chosen = self.folder / "mutant"
        chosen.write_text(mutant.place)
        try:
            self._ask(f"mutate {mutant.place}")
            yield
        finally:
            chosen.unlink()
            self._ask("mutate none")

    def take_lines(self) -> set[str]:
        """The lines (``class:line``) that JVMs have run since the last time, also those that have ended."""
        lines = self._ask("lines")
        for left in self.folder.glob("*.lines"):
            lines.update(left.read_text().split())
            left.unlink()
        return lines

    def _ask(self, order: str) -> set[str]:
        answers: set[str] = set()
        for port in self.folder.glob("*.port"):
            if not Path("/proc", port.stem).exists():
                port.unlink()
                continue
            with contextlib.suppress(ConnectionError):  # it is ending
                address = ("127.0.0.1", int(port.read_text()))
                with socket.create_connection(address, timeout=ANSWER_SECONDS) as agent:
                    agent.sendall(f"{order}{os.linesep}".encode())
                    answers.update(agent.makefile().read().split())
        return answers
