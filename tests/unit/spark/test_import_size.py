"""What ``import colocation.spark`` costs a driver, whose memory Spark has given to its JVM."""

import subprocess
import sys

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


def test_an_import_takes_little_beyond_pyspark() -> None:
    """In a process of its own; the Kubernetes client and pandas are imported by what needs them."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)
    assert float(done.stdout) < MOST_MIB
