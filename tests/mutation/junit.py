"""Judges changes of Java's classes by JUnit's tests of the jar, a JVM for each."""

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

from .agents import Agents, JavaMutant, Runs, chosen

CHECKOUT = Path(__file__).parents[2]
MODULE = CHECKOUT / "spark_images" / "coloc-fs"
SPARK_HOME = Path(pyspark.__file__).parent
LAUNCHER = "org.junit.platform.console.ConsoleLauncher"
HANGS_SECONDS = 60
MOST_SECONDS = 15
"""Of tests for a mutant."""


class JUnit:
    """Compiles the tests once."""

    def __init__(self, agents: Agents) -> None:
        self.agents = agents
        self.environment = {**os.environ, "JDK_JAVA_OPTIONS": agents.java_options}
        script = CHECKOUT / "scripts" / "junit-classpath"
        printed = subprocess.run([script], check=True, capture_output=True, text=True).stdout.strip()
        self.classpath = f"{SPARK_HOME / 'jars' / '*'}:{printed}"

    def classes(self) -> list[str]:
        """The names of the test classes."""
        compiled = MODULE / "target" / "test-classes"
        files = sorted(compiled.rglob("*Test.class"))
        return [".".join(file.relative_to(compiled).with_suffix("").parts) for file in files]

    def runs(self, classes: Sequence[str], kept: Path) -> Runs:
        """What each class of tests runs, which the file keeps."""
        if not kept.exists():
            ran = {}
            for name in classes:
                started = time.monotonic()
                if self.passes([name]):
                    ran[name] = (time.monotonic() - started, sorted(self.agents.take_lines()))
            kept.write_text(json.dumps(ran))
        found: Runs = json.loads(kept.read_text())
        return found

    def kills(self, mutant: JavaMutant, runs: Runs) -> bool:
        """Whether a test that runs the mutant's line fails."""
        classes = chosen(list(runs), mutant, runs, MOST_SECONDS)
        with self.agents.changed(mutant):
            return bool(classes) and not self.passes(classes)

    def passes(self, classes: Sequence[str]) -> bool:
        """Whether all tests of these classes pass."""
        options = [option for name in classes for option in ("--select-class", name)]
        launcher = ["java", "-XX:TieredStopAtLevel=1", "-cp", self.classpath, LAUNCHER]
        command = [*launcher, "execute", "--details=none", "--disable-banner", "--fail-if-no-tests", *options]
        try:
            done = subprocess.run(
                command, cwd=MODULE, env=self.environment, capture_output=True, check=False, timeout=HANGS_SECONDS
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0
