"""The table of faults is whole, and its page is up to date."""

import pytest

from .failure_modes import PAGE, render
from .fault_kinds import BY_NAME, ERRORS, KINDS, FaultKind, error_name, matches


def test_the_page_is_up_to_date() -> None:
    """Else run ``python -m tests.chaos.failure_modes``."""
    assert PAGE.read_text() == render()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_is_reported_in_full(kind: FaultKind) -> None:
    """Its errors are known, its times make sense, its sentences fit a cell of a table."""
    assert set(kind.errors) <= set(ERRORS)
    assert 0 <= kind.hold_seconds[0] <= kind.hold_seconds[1] < 600 and kind.aftermath_seconds > 0
    texts = (kind.how, kind.users_see, kind.for_how_long, kind.what_to_do)
    assert not any("|" in text or "\n" in text for text in texts)


def test_names_are_different() -> None:
    """Each names one kind."""
    assert len(BY_NAME) == len(KINDS)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ReplicasMissing: bucket 3: 1 of 2 nodes took its files", "ReplicasMissing"),
        ("LoadConflict: table demo.t: overwrite was overtaken: …. Nothing was changed; start it again", "LoadConflict"),
        ("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] the table", "TableNotFound"),
        ("Unable to connect to the server: dial tcp 172.30.0.1:6443: connect: connection refused", "ApiUnavailable"),
        ("ColocatedTable shop/t: the API server answered 429: storage is (re)initializing", "ApiUnavailable"),
        ("the API server answered 503: the request has been made before all known HTTP paths", "ApiUnavailable"),
        ("the API server https://10.96.0.1:443 answered 503: it has just begun", "ApiUnavailable"),
        ("ColocatedTable shop/t: the API server does not accept this application's token (401): it …", "TokenRefused"),
        ("SparkException: [INTERNAL_ERROR] No active or default Spark session found SQLSTATE: XX000", "SessionLost"),
        ("Py4JJavaError: o164.hasNext: IllegalStateException: SparkContext has been shutdown", "SessionLost"),
        ("SparkException: Job 9 cancelled because SparkContext was shut down", "SessionLost"),
        ("IllegalStateException: Cannot call methods on a stopped SparkContext.", "SessionLost"),
        ("SchemaMismatch: table shop/t: the rows have the columns of schema 1", "SchemaMismatch"),
        ("MissingColumns: table shop.t: the rows have the columns key, and not added_1", "SchemaMismatch"),
        ("AnalysisException: [INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA] Cannot write", "SchemaMismatch"),
        ("KeyError: 'x'", None),
    ],
)
def test_errors_are_known_by_their_text(text: str, name: str | None) -> None:
    """The words of the product, of kubectl and of Spark."""
    assert error_name(text) == name
    assert name is None or matches(name, text)


REFUSED = "The connection to the server 172.30.0.1:6443 was refused - did you specify the right host or port?"
SLOW = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
OPENAPI = "https://172.30.0.1:6443/openapi/v2?timeout=30s"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (REFUSED, "ApiUnavailable"),
        (f"Unable to connect to the server: {SLOW}", "ApiUnavailable"),
        ("Error from server (Timeout): Timeout: request did not complete within requested timeout", "ApiUnavailable"),
        ("error: the cluster answered 504: Timeout: request did not complete", "ApiUnavailable"),
        ("error: the cluster cannot be reached: https://172.30.0.1:6443: Connection refused", "ApiUnavailable"),
        (f'failed to download openapi: Get "{OPENAPI}": connect: connection refused', "ApiUnavailable"),
        ("error: timed out waiting for the condition on colocatedtables/orders", "ApiUnavailable"),
        ("client rate limiter Wait returned an error: context deadline exceeded", "ApiUnavailable"),
        ("Error from server (TooManyRequests): storage is (re)initializing", "ApiUnavailable"),
        ('error: the server doesn\'t have a resource type "ct"', "ApiUnavailable"),
        ('Error from server (NotFound): colocatedtables.colocation.dev "orders" not found', "TableNotFound"),
        ("error: Spark application 'sql-ddae54' in 'chaos' was deleted while it ran", "SessionLost"),
        ("SourceLost: merge of lake.chaos.orders: each of 4 attempts lost executors", "JobAborted"),
        ("error: the operator refused: no node that answers has a folder of table chaos/orders; no table has and no "
         "group remembers orders-b6a60102, of the same name", "NothingDropped"),
        ('The ColocatedTable "orders" is invalid: spec.columns: Invalid value: "array"', None),
    ],
)
def test_errors_of_commands_are_known_by_what_they_said(said: str, name: str | None) -> None:
    """Not by the words of the command itself, which may hold a bound for its time."""
    text = f"kubectl patch ct orders -n chaos --request-timeout=30s exited with 1\n{said}\n"
    assert error_name(text) == name
    assert matches("ApiUnavailable", text) == (name == "ApiUnavailable")
