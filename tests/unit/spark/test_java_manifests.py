"""Manifests that Python and Java make are the same, byte for byte of their JSON.

Two cases of ``tests/contract/manifests.json``: what Python stored, and what Java makes of it with one more file. Java's
tests (``ManifestExchangeTest``) look at the same two from the other side.
"""

import hashlib

from colocation.model.table import Column
from colocation.model.table_manifest import DataFile, TableManifest, decode_manifest, manifest_parts
from tests.contract.cases import cases, stored_manifest

COLUMNS = (
    Column(name="id", type="bigint", nullable=False),
    Column(name="day", type="string"),
    Column(name="price", type="decimal(10,2)", stored_as="cost"),
)
FILES = (
    DataFile(path="data/day=a%3Ab/part-0-1_00000.c000.zstd.parquet", bucket=0, partition={"day": "a:b"}, rows=3,
             bytes=2**40, sha256="1" * 64),
    DataFile(path="data/day=__HIVE_DEFAULT_PARTITION__/part-0-1_00001.c000.zstd.parquet", bucket=1,
             partition={"day": None}, rows=1, bytes=10, sha256="2" * 64),
)  # fmt: skip
ADDED = DataFile(
    path='data/day=\u00e9"\u20ac/part-1-1_00001.c000.zstd.parquet', bucket=1, partition={"day": 'é"€\t\\'}, rows=7,
    bytes=70, sha256="3" * 64,
)  # fmt: skip


def manifest(parent: str | None, snapshot_id: int, *files: DataFile) -> TableManifest:
    return TableManifest(
        namespace="shop", table="orders", uid="12345678-aaaa", snapshot_id=snapshot_id, parent=parent, columns=COLUMNS,
        bucketed_by=("id",), partitioned_by=("day",), sorted_by=("id",), buckets=2, files=files,
    )  # fmt: skip


def fixture(name: str) -> tuple[bytes, str]:
    stored = stored_manifest(next(case for case in cases("manifests") if case["name"] == name))
    return stored, hashlib.sha256(stored).hexdigest()


def test_java_reads_what_python_makes_now() -> None:
    """The manifest from which Java's test begins is what this version would write."""
    stored, sha256 = fixture("as Python stored it")
    assert manifest_parts(stored, sha256).text == manifest(None, 1, *FILES).model_dump_json(by_alias=True).encode()


def test_python_reads_what_java_makes() -> None:
    """It is the manifest that Python would have made."""
    _, parent = fixture("as Python stored it")
    stored, sha256 = fixture("as Java stored its successor")
    expected = manifest(parent, 2, FILES[1], ADDED)
    assert decode_manifest(stored, sha256) == expected
    assert manifest_parts(stored, sha256).text == expected.model_dump_json(by_alias=True).encode()
