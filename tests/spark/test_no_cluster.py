"""A session on a machine that knows no cluster, as of a newcomer who tries the library on a laptop."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from pyspark.sql import SparkSession
from colocation.spark import configure
spark = configure(SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")).getOrCreate()
try:
    spark.sql("SELECT * FROM colocation.shop.orders")
except Exception as error:
    print(error)
"""


def test_a_session_without_a_cluster_learns_where_it_can_run(tmp_path: Path) -> None:
    """No wait for an API server that nothing names, and no stack of Java's calls in the log."""
    named = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")
    environment = {name: text for name, text in os.environ.items() if name not in named}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment | {"HOME": str(tmp_path)}, capture_output=True,
        text=True, check=True, timeout=180,
    )  # fmt: skip
    assert done.stdout.startswith("no cluster is configured: this program runs in no pod, and there is no kubeconfig")
    assert "\n\tat " not in done.stderr
