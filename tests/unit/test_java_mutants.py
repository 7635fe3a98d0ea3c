"""``make mutants-java`` changes classes in JVMs, and knows what a test runs."""

from pathlib import Path

from tests.mutation.agents import Agents
from tests.mutation.java import JAR
from tests.mutation.junit import JUnit

TESTED = "dev/colocation/spark/catalog/StreamOffset"
TEST = "dev.colocation.spark.catalog.StreamOffsetTest"
CHANGES = ("begin: answer empty or null", "to: condition inverted", "json: call of ifPresent left out")


def test_changes_of_tested_lines_are_noticed(tmp_path: Path) -> None:
    """Each kind of change fails the test that runs its line; without a change it passes again."""
    agents = Agents(tmp_path)
    agents.build()
    junit = JUnit(agents)
    runs = junit.runs([TEST], tmp_path / "runs.json")
    found = [mutant for mutant in agents.mutants_of(JAR) if mutant.place.startswith(f"{TESTED}#")]
    mutants = {f"{mutant.method}: {mutant.change}": mutant for mutant in found}
    assert [change for change in CHANGES if not junit.kills(mutants[change], runs)] == []
    assert junit.passes([TEST])
