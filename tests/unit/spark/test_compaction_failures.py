"""The compaction after a load: the load is committed, so nothing may make it fail."""

import uuid
from types import SimpleNamespace

import pytest
from kubernetes.client import ApiException
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from colocation.model.table import ColocatedTableSpec, Column, Compaction
from colocation.model.table_manifest import DataFile, TableManifest
from colocation.spark.jobs.result import stop
from colocation.spark.write import compaction
from colocation.spark.write.commit import LoadConflict
from colocation.spark.write.load_target import NotReady

from .fake_catalog import FakeCatalog

SPEC = ColocatedTableSpec(
    colocate_with="sales", columns=(Column(name="id", type="bigint"),), bucketed_by=("id",),
    compaction=Compaction(enabled=True, max_files_per_bucket=1),
)  # fmt: skip


class OfADeadGateway(Py4JJavaError):
    """As PySpark raises it: its text is asked of a JVM that is gone."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def __str__(self) -> str:
        raise Py4JNetworkError("Answer from Java side is empty")


def crowded_load() -> tuple[SimpleNamespace, TableManifest]:
    """A committed load that left two files in bucket 0."""
    catalog = FakeCatalog()
    catalog.add_table("orders", SPEC, str(uuid.uuid4()))
    files = tuple(
        DataFile(path=f"data/part-{load}_00000.c000.zstd.parquet", bucket=0, rows=1, bytes=9, sha256="0" * 64)
        for load in ("0000000a", "0000000b")
    )
    manifest = TableManifest(
        namespace="shop", table="orders", uid="u", snapshot_id=1, columns=SPEC.columns, bucketed_by=("id",), buckets=1,
        files=files,
    )  # fmt: skip
    load = SimpleNamespace(table=catalog.tables["orders"], catalog=catalog, settings=None, wait_seconds=0)
    return load, manifest


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        pytest.param(ApiException(status=500, reason="Boom"), "ApiException: (500) Reason: Boom", id="API server"),
        pytest.param(Py4JError("no\n  gateway"), "Py4JError: no gateway", id="py4j"),
        pytest.param(OfADeadGateway(), "OfADeadGateway: Spark is gone", id="dead JVM"),
        pytest.param(NotReady("no map"), "NotReady: no map", id="not ready"),
        pytest.param(LoadConflict("lost"), "LoadConflict: lost", id="overtaken"),
        pytest.param(KeyError("bug"), "KeyError: 'bug'", id="a bug of ours"),
        pytest.param(MemoryError(), "MemoryError: ", id="memory"),
        pytest.param(OSError("x" * 9999), "OSError: " + "x" * 500, id="long"),
    ],
)
def test_no_error_of_a_compaction_fails_the_load(
    error: Exception, failure: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a warning in the result and in the log."""

    def begin(*_: object) -> None:
        raise error

    monkeypatch.setattr(compaction.Transaction, "begin", begin)
    load, manifest = crowded_load()
    assert compaction.compact_after_load(None, load, manifest) == (None, failure)  # type: ignore[arg-type]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "the load of shop.orders is committed; not compacted")
    ]


def test_a_session_that_does_not_end_in_order_fails_no_job() -> None:
    """The result is printed by then."""

    def fail() -> None:
        raise Py4JNetworkError("gone")

    stop(SimpleNamespace(stop=fail))  # type: ignore[arg-type]
