"""A program that ``spark-submit`` starts and that calls ``configure``: what the application was given stays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from colocation.spark import jar_path

pytestmark = pytest.mark.spark

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
EXTENSION = "com.example.Extension"
"""Of no jar: Spark warns, and goes on."""
PROGRAM = f"""
import json
from pyspark.sql import SparkSession
from colocation.spark import configure
spark = configure(SparkSession.builder.config("spark.sql.extensions", "{EXTENSION}"), namespace="shop").getOrCreate()
print("CONF " + json.dumps(dict(spark.sparkContext.getConf().getAll())))
"""


def conf_of_submitted(folder: Path, **given: str) -> dict[str, str]:
    """Spark's configuration in the program when ``spark-submit`` has these settings below ``spark.``."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    conf = [word for key, value in given.items() for word in ("--conf", f"spark.{key}={value}")]
    done = subprocess.run(
        [SUBMIT, "--master", "local[1]", "--driver-class-path", jar_path(), *conf, program], cwd=folder,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.PIPE, text=True, check=True, timeout=180,
    )  # fmt: skip
    line = next(line for line in done.stdout.splitlines() if line.startswith("CONF "))
    found: dict[str, str] = json.loads(line.removeprefix("CONF "))
    return found


def test_what_an_application_was_given_stays(tmp_path: Path) -> None:
    """Its tuning is not overruled, and its jars, plugins and extensions are there next to ours."""
    jar = tmp_path / "theirs.jar"
    jar.write_bytes(b"PK\x05\x06" + bytes(18))  # an empty archive
    waiting, ratio = "scheduler.maxRegisteredResourcesWaitingTime", "scheduler.minRegisteredResourcesRatio"
    plugin = "org.apache.spark.sql.connect.SparkConnectPlugin"
    conf = conf_of_submitted(
        tmp_path,
        **{"jars": str(jar), "plugins": plugin, waiting: "1s", "ui.enabled": "false", "connect.grpc.binding.port": "0"},
    )
    assert (conf[f"spark.{waiting}"], conf[f"spark.{ratio}"]) == ("1s", "1.0")
    assert [word.rpartition("/")[2] for word in conf["spark.jars"].split(",")] == [jar.name, jar_path().name]
    assert conf["spark.plugins"].split(",") == [plugin, "dev.colocation.spark.ColocationPlugin"]
    assert conf["spark.sql.extensions"].split(",") == [EXTENSION, "dev.colocation.spark.ColocationExtensions"]
