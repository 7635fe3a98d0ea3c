"""``python -m tests.spark.other_formats_program``: a session with tables of Iceberg and Delta next to ours.

Reads JSON: ``conf``, and ``statements``, each with the table whose rows it is to print, or none. Prints the rows.
"""

import json
import sys

from pyspark.sql import SparkSession

from benchmarks.merge import EXTENSIONS
from benchmarks.merges.jars import peers_jars
from colocation.spark import jar_path


def main() -> None:
    """Run them."""
    asked = json.load(sys.stdin)
    builder = SparkSession.builder.master("local[2]")
    for key, value in {
        **asked["conf"],
        "spark.jars": ",".join(str(jar) for jar in (jar_path(), *peers_jars())),
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "900m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    found = []
    for statement, table in asked["statements"]:
        print(statement, file=sys.stderr)
        session.sql(statement)
        if table:
            found.append([list(row) for row in session.sql(f"SELECT k, v FROM {table} ORDER BY k, v").collect()])
    print(json.dumps(found))
    session.stop()


if __name__ == "__main__":
    main()
