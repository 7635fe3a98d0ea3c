"""An archive of loaded classes for the tests' JVMs.

A JVM of Spark reads, checks and links thousands of classes, and the tests start dozens of JVMs. Java maps these
classes from an archive instead (``-XX:SharedArchiveFile``), which ``class_archive_program`` dumps once for each Java
and Spark: 60 to 80 seconds of a processor. An archive serves only the class path that it was made with, by absolute
paths, sizes and times of the jars; a JVM that it does not fit ignores it. So archives change no result of a test.

``python -m tests.spark.class_archive`` makes it before the tests begin, and prints Java's options; else the first test
of Spark makes it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pyspark

from devcluster.locks import exclusive
from tests.integration.control_plane import dying_with_us

SPARK_HOME = Path(pyspark.__file__).parent
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -XX:ReservedCodeCacheSize=192m"
"""Tests are short: optimising their code costs more than it gains.

Without optimisation Java keeps 48 MB of compiled code by default. A driver of many tests has more, and would drop and
compile the same methods again and again. From 20 MB of classes on, it would collect the whole heap each time that their
number has grown by half: a second of a processor for each executor.
"""
CHECKOUT = Path(__file__).parents[2]
PROGRAM = "tests.spark.class_archive_program"
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Spark parses what its launcher prints, whose class path is another: no word about an archive that does not fit."""
DUMP_SECONDS = 400
KEPT = 16
"""Archives of the checkouts that were tested last, 250 MB each."""


class ArchiveError(Exception):
    """The program that dumps the archive failed; the message holds the end of its output."""


def folder() -> Path:
    """Where archives lie: outside the checkouts, for ``make clean`` and a new ``.venv`` leave them right."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "colocation" / "class-archives"


def java_options() -> str:
    """For all JVMs of the tests. Without an archive, which a warning tells, they only start more slowly."""
    try:
        return f"{QUICK_JAVA} -XX:SharedArchiveFile={ensure(folder(), SPARK_HOME, PROGRAM)} {SILENT}"
    except (ArchiveError, OSError, subprocess.SubprocessError) as error:
        warnings.warn(f"JVMs start without a class archive: {error}", stacklevel=2)
        return QUICK_JAVA


def ensure(archives: Path, spark_home: Path, program: str) -> Path:
    """The archive of this Java and this Spark, made by the program if it is not there yet."""
    place = hashlib.sha256(str(spark_home).encode()).hexdigest()[:12]
    archive = archives / f"{place}-{_digest(spark_home)}.jsa"
    with exclusive(archives / f"{place}.lock", f"makes a class archive of {spark_home}"):
        (archives / f"{place}.home").write_text(str(spark_home))
        if not archive.exists():
            for stale in archives.glob(f"{place}-*"):
                _remove(stale)
            _make(archive, program)
        archive.touch()
    _remove_unused(archives)
    return archive


def _digest(spark_home: Path) -> str:
    """Of all that decides whether an archive fits, and of what it is made."""
    java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java"
    own = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}  # Java prints it
    version = subprocess.run([java, "-version"], env=own, capture_output=True, text=True, check=True).stderr
    jars = sorted((jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in (spark_home / "jars").iterdir())
    source = Path(__file__).with_name("class_archive_program.py").read_text()
    return hashlib.sha256(repr((version, jars, source, QUICK_JAVA)).encode()).hexdigest()[:12]


def _make(archive: Path, program: str) -> None:
    """The program writes next to the archive; only what it has finished gets the archive's name."""
    with tempfile.TemporaryDirectory(prefix=f"{archive.stem}-", dir=archive.parent) as new:
        environment = {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA, "TMPDIR": new, "SPARK_LOCAL_DIRS": new}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
        made = Path(new, "classes.jsa")
        done = subprocess.run(
            dying_with_us([sys.executable, "-m", program, new, str(made)]), env=environment, cwd=new, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=DUMP_SECONDS,
        )  # fmt: skip
        if done.returncode != 0 or not made.exists():
            raise ArchiveError(f"{program} ended with {done.returncode}: {done.stdout[-2000:]}")
        with made.open("rb") as written:
            os.fsync(written.fileno())  # an archive that a power failure has shortened ends the JVMs that map it
        made.rename(archive)


def _remove_unused(archives: Path) -> None:
    """Of Sparks that are gone, and all but the last few; a JVM that has mapped one keeps it."""
    for home in archives.glob("*.home"):
        if not Path(home.read_text()).exists():
            for left in archives.glob(f"{home.stem}*"):
                _remove(left)
    for old in sorted(archives.glob("*.jsa"), key=lambda one: one.stat().st_mtime, reverse=True)[KEPT:]:
        _remove(old)


def _remove(path: Path) -> None:
    """Another command may be removing it, too."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    print(java_options())
