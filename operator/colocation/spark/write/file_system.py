"""What a session tells the ``coloc://`` file system: which agents hold which buckets, and where the manifests lie.

Everything is session configuration, ``fs.coloc.*``, which Spark sends to executors with each plan: they learn agents
and map without asking the cluster.
"""

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from colocation.model.table_manifest import DATA_DIRECTORY, MANIFEST_DIRECTORY, manifest_path

from ..catalog import GroupObject, TableObject
from ..configuration import SessionSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFEST_DIRECTORY_KEY = "fs.coloc.manifest.directory"


class FileSystemSession:
    """The file system as one Spark session sees it."""

    def __init__(self, spark: "SparkSession", settings: SessionSettings) -> None:
        self._spark = spark
        self.folder = _driver_folder(spark)
        spark.conf.set("fs.coloc.data.root", settings.data_root)
        spark.conf.set("fs.coloc.token.file", settings.token_file)
        spark.conf.set("fs.coloc.ca.file", settings.ca_file)
        spark.conf.set("fs.coloc.read.deadline.seconds", str(settings.retry_seconds))

    def tell_group(self, namespace: str, name: str, group: GroupObject, urls: dict[str, str]) -> None:
        """Tell the group's map and its agents' URLs by node.

        Args:
            namespace: of the tables that name the group.
            name: as they name it, also ``<other namespace>/<name>``.
        """
        buckets = group.status.backends_per_bucket_seq or ()
        text = json.dumps({"name": name, "agents": urls, "buckets": buckets}, sort_keys=True)
        self._spark.conf.set(f"fs.coloc.group.{namespace}.{name}", text)

    def open_table(self, table: TableObject, group: str, stored: bytes, sha256: str) -> str:
        """The location of the files that a manifest names; it pins them, whatever is committed later.

        Args:
            table: whose files they are.
            group: whose nodes hold them; empty = none.
            stored: the manifest as ``encode_manifest`` gave it.
            sha256: its digest, 64 hex digits.
        """
        target = self.folder / manifest_path(sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(stored)
        self.name_group(table, group)
        return self.location(table, sha256)

    def name_group(self, table: TableObject, group: str) -> None:
        """Tell whose nodes hold a table's files: a group that was told under this name in the table's namespace."""
        self._spark.conf.set(f"fs.coloc.table.{table.namespace}.{table.directory}", group)

    @staticmethod
    def location(table: TableObject, sha256: str) -> str:
        """The location of the files that a manifest names."""
        return f"coloc://{table.namespace}/{table.directory}/{sha256}/{DATA_DIRECTORY}"


def _driver_folder(spark: "SparkSession") -> Path:
    """A folder of this driver's own for manifests, made once per session and gone with the process."""
    known = spark.conf.get(MANIFEST_DIRECTORY_KEY, "")
    if known:
        return Path(known).parent
    folder = Path(tempfile.mkdtemp(prefix="colocation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    spark.conf.set(MANIFEST_DIRECTORY_KEY, str(folder / MANIFEST_DIRECTORY))
    return folder
