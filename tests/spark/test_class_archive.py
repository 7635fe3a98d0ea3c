"""The class archive of the tests' JVMs: who uses it, when it is made, and what is removed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark import class_archive
from tests.spark.class_archive import KEPT, ArchiveError, ensure

pytestmark = pytest.mark.spark
MAKES = "import sys; open(sys.argv[2], 'x').write('classes')"
"""A program that makes an archive."""


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A Spark of one jar."""
    jars = tmp_path / "pyspark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core.jar").write_text("core")
    return jars.parent


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Where archives lie."""
    return tmp_path / "class-archives"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a program that makes an archive at once."""
    (tmp_path / "made_at_once.py").write_text(MAKES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "made_at_once"


def test_parts_of_the_cluster_use_it(application: SparkSession) -> None:
    """Master, three workers, driver and three executors, unless it could not be made, of which a warning tells."""
    assert application.sparkContext is not None
    options = dict(word.partition("=")[::2] for word in os.environ["JDK_JAVA_OPTIONS"].split())
    archive = options.get("-XX:SharedArchiveFile")
    assert archive is None or len([maps for maps in _maps_of_descendants(os.getpid()) if archive in maps]) >= 8


def test_it_is_made_once(spark_home: Path, archives: Path, program: str) -> None:
    """A later one finds it, and nothing else is left."""
    first = ensure(archives, spark_home, program)
    inode = first.stat().st_ino
    assert first.read_text() == "classes"
    assert ensure(archives, spark_home, "no_such_program") == first and first.stat().st_ino == inode
    assert sorted(left.suffix for left in archives.iterdir()) == [".home", ".jsa", ".lock"]


def test_other_jars_need_another(spark_home: Path, archives: Path, program: str) -> None:
    """The archive of the jars that were there before goes."""
    old = ensure(archives, spark_home, program)
    (spark_home / "jars" / "spark-core.jar").write_text("newer core")
    new = ensure(archives, spark_home, program)
    assert list(archives.glob("*.jsa")) == [new] and new != old


def test_archives_of_sparks_that_are_gone_go(spark_home: Path, archives: Path, program: str, tmp_path: Path) -> None:
    """Checkouts come and go."""
    ensure(archives, spark_home, program)
    spark_home.rename(tmp_path / "moved")
    moved = ensure(archives, tmp_path / "moved", program)
    assert {left.stem for left in archives.glob("*.jsa")} == {moved.stem}
    assert [home.read_text() for home in archives.glob("*.home")] == [str(tmp_path / "moved")]


def test_the_last_few_are_kept(spark_home: Path, archives: Path, program: str) -> None:
    """Those of checkouts that were tested longest ago go."""
    archives.mkdir()
    for number in range(KEPT):
        other = archives / f"other-{number}.jsa"
        other.touch()
        os.utime(other, (number, number))
    made = ensure(archives, spark_home, program)
    others = {f"other-{number}.jsa" for number in range(1, KEPT)}
    assert {left.name for left in archives.glob("*.jsa")} == {made.name, *others}


def test_without_an_archive_tests_run_and_say_so(archives: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning holds what the program said; nothing half done is left."""
    monkeypatch.setattr(class_archive, "PROGRAM", "no_such_program")
    monkeypatch.setattr(class_archive, "folder", lambda: archives)
    with pytest.warns(UserWarning, match="No module named no_such_program"):
        assert class_archive.java_options() == class_archive.QUICK_JAVA
    assert sorted(left.suffix for left in archives.iterdir()) == [".home", ".lock"]


def test_a_program_that_ends_without_an_archive_has_failed(spark_home: Path, archives: Path) -> None:
    """Whatever its exit code is."""
    with pytest.raises(ArchiveError, match="ended with 0"):
        ensure(archives, spark_home, "this")


def _maps_of_descendants(ancestor: int) -> Iterator[str]:
    """The files that each process has mapped which this one has started, or they in turn."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with_name = status.read_text().rpartition(")")
        parents[int(status.parent.name)] = int(with_name[2].split()[1])
    for process in parents:
        above: int | None = process
        while above is not None and above != ancestor:
            above = parents.get(above)
        if above == ancestor:
            yield Path(f"/proc/{process}/maps").read_text()
