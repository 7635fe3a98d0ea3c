"""Tables that somebody spoiled: each harms itself alone, whoever lists, registers or explains the others."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kubernetes.client import ApiException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from colocation.model.table_manifest import TableManifest
from colocation.spark.catalog import NoAnswer, NotAllowed, RequestRefused, TableList, parse_tables
from colocation.spark.read import registration
from colocation.spark.read.registrar import _inconsistency
from colocation.spark.read.session_catalog import ForeignTable
from colocation.spark.read.statistics import MAX_ROWS, tell_row_count

from .test_catalog import ITEM
from .test_waiting import ready_catalog

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TIMES = JSON | st.sampled_from(["soon", "2026-11-21", "2026-11-21T04:00:00", "0001-01-01T00:00:00+14:00"])
SNAPSHOTS = JSON | st.fixed_dictionaries(
    {"id": JSON, "manifest": JSON | st.just("sha256:../../../etc/passwd"), "committedAt": TIMES},
    optional=dict.fromkeys(("partitions", "files", "rows", "bytes"), JSON),
)
STATUSES = JSON | st.fixed_dictionaries(
    {}, optional={"snapshot": SNAPSHOTS, "history": JSON | st.lists(SNAPSHOTS, max_size=2), "group": JSON,
                  "accepted": JSON, "columns": JSON, "conditions": JSON},
)  # fmt: skip
GOOD = {"id": 1, "manifest": "sha256:" + "0" * 64, "committedAt": "2026-11-21T04:00:00Z"}


def item(name: str, **parts: Any) -> dict[str, Any]:
    return {**ITEM, "metadata": {**ITEM["metadata"], "name": name}, **parts}


@settings(max_examples=300, deadline=None)
@given(STATUSES)
@example({"snapshot": {**GOOD, "committedAt": "soon"}})
@example({"snapshot": {**GOOD, "committedAt": "2026-11-21T04:00:00"}})
@example({"snapshot": {**GOOD, "manifest": "x"}})
@example({"snapshot": GOOD, "history": [{**GOOD, "committedAt": "soon"}]})
@example({"snapshot": {**GOOD, "rows": 2**70}})
def test_no_status_hinders_the_other_tables(status: Any) -> None:
    """A table is understood, or listed apart with the reason, the field and what is allowed; no text breaks a line."""
    listed = parse_tables([item("hostile", status=status), item("orders")])
    understood = {table.name for table in listed.tables}
    assert "orders" in understood
    assert {"hostile"} == (understood | set(listed.unreadable)) - {"orders"}
    for message in listed.unreadable.values():
        assert message.startswith("InvalidStatus: the status of table shop.hostile cannot be understood: ")
        assert message.isprintable() and message.isascii()


def test_a_committed_time_without_a_zone_is_named() -> None:
    """The message says which field of which table."""
    bad = {"snapshot": GOOD, "history": [{**GOOD, "committedAt": "2026-11-21T04:00:00"}]}
    message = parse_tables([item("bad", status=bad)]).unreadable["bad"]
    assert 'status.history.0.committedAt is "2026-11-21T04:00:00": allowed is a time of RFC 3339 with a' in message
    assert message.endswith("restore it, or load all of the table anew with mode overwrite")


def test_a_spec_that_is_missing_or_newer_is_named_too() -> None:
    """With its own reason."""
    listed = parse_tables([item("none", spec=None), item("newer", spec={"of": "a newer version"}), item("orders")])
    assert [table.name for table in listed.tables] == ["orders"]
    assert all(message.startswith("InvalidSpec: the spec of table shop.") for message in listed.unreadable.values())


def registered(catalog: Any, error: Exception, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What registration says of ``bad``, whose registration ends with the error, and of ``orders``."""

    def register_one(registrar: Any, table: Any, *_: Any) -> Any:
        if table.name == "bad":
            raise error
        return SimpleNamespace(table=table.name, name=f"shop.{table.name}", registered=True, reason="")

    monkeypatch.setattr(registration, "_register_one", register_one)
    registrar = SimpleNamespace(database="shop", forget_others=lambda kept: None)
    request = registration._Request(None, {})
    return {table.table: table for table in registration._register_all(registrar, None, "shop", request, catalog)}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(ForeignTable("taken"), "taken", id="foreign"),
        pytest.param(NotAllowed("no rights"), "no rights", id="rights"),
        pytest.param(RequestRefused("a/b/c: 400"), "a/b/c: 400", id="a name that no group has"),
        pytest.param(PySparkException("no such type"), "no such type", id="Spark"),
        pytest.param(ApiException(status=418), "InternalError: ApiException: (418)", id="API server"),
        pytest.param(Py4JError("no method"), "InternalError: Py4JError: no method", id="py4j"),
        pytest.param(KeyError("k"), "InternalError: KeyError: 'k'", id="a manifest without its key"),
        pytest.param(MemoryError(), "InternalError: MemoryError: ", id="a manifest that is too large"),
    ],
)
def test_one_table_that_fails_hinders_no_other(error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the error is, it stands in the answer."""
    catalog = ready_catalog()
    catalog.add_table("bad", catalog.tables["orders"].spec, "ffffffff-0000")
    found = registered(catalog, error, monkeypatch)
    assert (found["orders"].registered, found["bad"].registered) == (True, False)
    assert found["bad"].reason.startswith(reason)


def test_an_api_server_that_does_not_answer_is_no_fault_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that are registered stay so."""
    catalog = ready_catalog()
    catalog.add_table("bad", catalog.tables["orders"].spec, "ffffffff-0000")
    with pytest.raises(NoAnswer):
        registered(catalog, NoAnswer("504"), monkeypatch)


def test_tables_that_cannot_be_understood_are_in_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not registered, with the reason."""
    catalog = ready_catalog()
    tables = tuple(catalog.tables.values())
    monkeypatch.setattr(catalog, "list_tables", lambda namespace: TableList(tables, {"worse": "InvalidStatus: x"}))
    found = registered(catalog, ValueError(), monkeypatch)
    assert (found["worse"].registered, found["worse"].reason) == (False, "InvalidStatus: x")


def test_a_manifest_whose_key_is_no_column_is_not_colocated() -> None:
    """Loaders write manifests, too."""
    table = ready_catalog().tables["orders"]
    manifest = TableManifest(
        namespace="shop", table="orders", uid=table.uid, snapshot_id=1, columns=table.spec.columns,
        bucketed_by=("other",), buckets=2,
    )  # fmt: skip
    group = ready_catalog().groups["sales"]
    assert _inconsistency(manifest, group) == "the files are bucketed by (no column other), the group by (bigint)"


def test_a_row_count_is_one_that_spark_can_reckon_with() -> None:
    """A status may hold any number."""
    told: list[tuple[Any, ...]] = []
    statistics = SimpleNamespace(tellRowCount=lambda *call: told.append(call))
    colocation = SimpleNamespace(spark=SimpleNamespace(TableStatistics=statistics))
    java = SimpleNamespace(dev=SimpleNamespace(colocation=colocation))
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(_jvm=java), _jsparkSession=SimpleNamespace(sessionState=lambda: "state")
    )
    tell_row_count(spark, "`shop`.`orders`", 2**53)
    tell_row_count(spark, "`shop`.`orders`", 7)
    assert [call[2] for call in told] == [MAX_ROWS, 7]
