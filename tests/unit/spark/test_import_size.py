"""What ``import colocation.spark`` costs a driver, whose memory Spark has given to its JVM."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MOST_MIB = 60
PROGRAM = """
import os
def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
import pyspark.sql
before = resident_mib()
import colocation.spark
print(resident_mib() - before)
"""


LIBRARIES = """
import importlib, pkgutil, sys
import pyspark.sql
known = set(sys.modules)
import colocation.spark
for module in pkgutil.walk_packages(colocation.spark.__path__, "colocation.spark."):
    importlib.import_module(module.name)
print(*{name.partition(".")[0] for name in set(sys.modules) - known} - sys.stdlib_module_names)
"""


def test_what_the_spark_image_has_to_hold() -> None:
    """Nothing beyond what every installation of ours has: the image is pulled by each node."""
    done = subprocess.run([sys.executable, "-c", LIBRARIES], capture_output=True, text=True, check=True, timeout=300)
    locked = (ROOT / "locks/spark.txt").read_text()
    missing = [name for name in done.stdout.split() if name != "colocation" and name.replace("_", "-") not in locked]
    assert not missing
    assert not [name for name in ("pandas", "pyarrow", "kubernetes") if f"\n{name}==" in locked]


def test_an_import_takes_little_beyond_pyspark() -> None:
    """In a process of its own; the Kubernetes client and pandas are imported by what needs them."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)
    assert float(done.stdout) < MOST_MIB
