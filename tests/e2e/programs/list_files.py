"""Prints what Python code in executors sees below the data root (the argument), and whether it can write there.

Prints one COLOCATION_RESULT line: folders there, how many files the executor that sees most sees, whether any could
write, and as which users they ran.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

TASKS = 24


def look(root: str) -> tuple[list[str], int, bool, int]:
    names = sorted(path.name for path in Path(root).iterdir())
    files = sum(path.is_file() for path in Path(root).rglob("*"))
    try:
        for name in names:
            (Path(root) / name / "planted").write_text("planted")
    except OSError:
        return names, files, False, os.getuid()
    return names, files, True, os.getuid()


def main(root: str) -> None:
    spark = SparkSession.builder.appName("list-files").getOrCreate()
    seen = spark.sparkContext.parallelize(range(TASKS), TASKS).map(lambda _: look(root)).collect()
    result = {
        "names": sorted({name for names, _, _, _ in seen for name in names}),
        "files": max(files for _, files, _, _ in seen),
        "wrote": any(wrote for _, _, wrote, _ in seen),
        "users": sorted({user for _, _, _, user in seen}),
    }
    print(f"COLOCATION_RESULT {json.dumps(result)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
