"""A driver with a web UI that joins a table with itself twice, and prints the tab "Colocation" before and after.

Arguments: the configuration as JSON, the table.
"""

import json
import sys
import time
import urllib.request

from pyspark.sql import SparkSession

PATIENCE_SECONDS = 60.0


def main(conf: dict[str, str], table: str) -> None:
    """The first join is colocated, the second has to shuffle."""
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    log4j = spark._jvm.org.apache.logging.log4j  # as in a submitted application, whose level is INFO
    log4j.core.config.Configurator.setLevel("dev.colocation.spark.explain", log4j.Level.INFO)
    url = f"{spark.sparkContext.uiWebUrl}/colocation/"
    print(f"PAGE {json.dumps(page(url))}")
    join = f"SELECT count(*) FROM {table} a JOIN {table} b ON a.k = b.k"
    spark.sql(join).collect()
    spark.conf.set("spark.colocation.disableColocateJoin", "true")
    spark.sql(f"{join} WHERE a.v < 5 /* <b> */").collect()
    spark.range(3).collect()  # no table of ours
    deadline = time.monotonic() + PATIENCE_SECONDS  # Spark calls listeners a little later
    while (shown := page(url)).count("<td><a") < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    print(f"PAGE {json.dumps(shown)}")
    spark.stop()


def page(url: str) -> str:
    """The HTML of a page."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        found: str = answer.read().decode()
    return found


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
