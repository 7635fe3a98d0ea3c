"""Sessions of JDBC and Connect clients that work on the same tables at the same time."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest

from tests.integration.control_plane import ControlPlane
from tests.spark.cluster_tables import CATALOG, ClusterTables
from tests.spark.conftest import MAP
from tests.spark.judging_operator import judged_tables
from tests.spark.loopback import LoopbackAgents
from tests.spark.sql_clients import Client, Row, Servers, SqlError

pytestmark = pytest.mark.spark

NAMESPACE = "sessions"
IN = f"{CATALOG}.{NAMESPACE}"
LAYOUT = "CLUSTERED BY (k) INTO 6 BUCKETS TBLPROPERTIES ('colocate_with'='sales')"
ROUNDS = 3


@pytest.fixture(scope="module", autouse=True)
def tables(agents: LoopbackAgents, plane: ControlPlane) -> Iterator[ClusterTables]:
    with judged_tables(plane, agents, NAMESPACE, MAP) as made:
        yield made


@pytest.fixture
def jdbc(servers: Servers) -> Iterator[Client]:
    with closing(servers.thrift()) as client:
        yield client


@pytest.fixture
def connect(servers: Servers) -> Iterator[Client]:
    with closing(servers.connect()) as client:
        yield client


def make(client: Client, name: str, columns: str = "k BIGINT, v BIGINT", partitions: str = "") -> str:
    client.run(f"CREATE TABLE {IN}.{name} ({columns}) {partitions} {LAYOUT}")
    return f"{IN}.{name}"


def at_once(*calls: Callable[[], list[Row]]) -> list[str]:
    """Run them at the same time; the error of each, empty where it went well."""

    def error(call: Callable[[], list[Row]]) -> str:
        try:
            call()
        except SqlError as found:
            return str(found)
        return ""

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(error, calls))


def test_appends_go_next_to_each_other(jdbc: Client, connect: Client) -> None:
    """To one partition; each session reads what it has written, at once."""
    table = make(jdbc, "appended")

    def append(client: Client, start: int) -> list[Row]:
        for key in range(start, start + ROUNDS):
            client.run(f"INSERT INTO {table} VALUES ({key}, 0)")
            assert client.run(f"SELECT v FROM {table} WHERE k = {key}") == [("0",)]
        return []

    assert at_once(lambda: append(jdbc, 0), lambda: append(connect, 100)) == ["", ""]
    keys = [*range(ROUNDS), *range(100, 100 + ROUNDS)]
    for client in (jdbc, connect):
        assert client.run(f"SELECT k FROM {table} ORDER BY k") == [(str(key),) for key in keys]


@pytest.mark.deep
def test_overwrites_of_partitions(jdbc: Client, connect: Client) -> None:
    """Of different ones: both stand. Of one: one stands, and the other gets an error when it was overtaken."""
    table = make(jdbc, "overwritten", "k BIGINT, v BIGINT, p INT", "PARTITIONED BY (p)")

    def overwrite(client: Client, partition: int, value: int) -> Callable[[], list[Row]]:
        rows = f"SELECT id, {value} FROM range(30)"
        return partial(client.run, f"INSERT OVERWRITE {table} PARTITION (p = {partition}) {rows}")

    def content() -> list[Row]:
        return jdbc.run(f"SELECT p, v, count(*) FROM {table} GROUP BY p, v ORDER BY p")

    for value in range(ROUNDS):
        assert at_once(overwrite(jdbc, 1, value), overwrite(connect, 2, value)) == ["", ""]
        assert content() == [("1", str(value), "30"), ("2", str(value), "30")]
    for value in range(ROUNDS):
        errors = at_once(overwrite(jdbc, 1, 100 + value), overwrite(connect, 1, 200 + value))
        assert "" in errors and all(not error or "LoadConflict" in error for error in errors), errors
        written = {str(wrote + value) for wrote, error in zip((100, 200), errors, strict=True) if not error}
        [first, second] = content()
        assert first[1] in written and first[2] == "30" and second == ("2", str(ROUNDS - 1), "30")


def test_readers_see_whole_overwrites(jdbc: Client, connect: Client, servers: Servers) -> None:
    """A query sees all rows of one overwrite, never an older one than the query before."""
    table = make(jdbc, "watched")
    overwrite = f"INSERT OVERWRITE {table} SELECT id, {{value}} FROM range(50)"
    jdbc.run(overwrite.format(value=0))
    ended = threading.Event()
    seen: list[Row] = []

    def read() -> None:
        while not ended.is_set():
            seen.extend(connect.run(f"SELECT count(*), min(v), max(v) FROM {table}"))

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read)
        for value in range(1, 2 * ROUNDS):
            jdbc.run(overwrite.format(value=value))
        ended.set()
        reading.result()
    assert {row[0] for row in seen} == {"50"} and all(row[1] == row[2] for row in seen)
    values = [int(row[1] or -1) for row in seen]
    assert values == sorted(values) and len(set(values)) > 2


def test_columns_change_while_rows_are_written(jdbc: Client, connect: Client) -> None:
    """What was to be written is there; what was not has a reason."""
    table = make(jdbc, "changing")
    ended = threading.Event()
    errors: dict[int, str] = {}

    def write() -> list[Row]:
        key, is_last = 0, False
        while not is_last:
            is_last = ended.is_set()
            [errors[key]] = at_once(partial(connect.run, f"INSERT INTO {table} (k) VALUES ({key})"))
            key += 1
        return []

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        for column in range(ROUNDS):
            jdbc.run(f"ALTER TABLE {table} ADD COLUMN c{column} STRING")
            jdbc.run(f"ALTER TABLE {table} RENAME COLUMN c{column} TO d{column}")
        ended.set()
        writing.result()
    assert all(not error or "LoadConflict" in error or "SchemaMismatch" in error for error in errors.values()), errors
    written = [(str(key), None) for key, error in errors.items() if not error]
    assert jdbc.run(f"SELECT k, d{ROUNDS - 1} FROM {table} ORDER BY CAST(k AS STRING)") == sorted(written)
    assert len(errors) > 1 and not errors[max(errors)]


def test_a_table_is_dropped_under_a_write(jdbc: Client, connect: Client) -> None:
    """The write fails; a new table of the same name has none of its rows."""
    table = make(jdbc, "dropped")
    slow = "SELECT id, 0 FROM range(30) WHERE reflect('java.lang.Thread', 'sleep', 200L) IS NOT NULL"
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(at_once, partial(connect.run, f"INSERT INTO {table} {slow}"))
        time.sleep(2)
        jdbc.run(f"DROP TABLE {table}")
        make(jdbc, "dropped")
        [error] = writing.result()
    assert "sessions.dropped was dropped and recreated during the load" in error, error
    assert connect.run(f"SELECT * FROM {table}") == [] == jdbc.run(f"SELECT * FROM {table}.files")
    connect.run(f"INSERT INTO {table} VALUES (1, 1)")
    assert jdbc.run(f"SELECT * FROM {table}") == [("1", "1")]


def test_sessions_keep_their_settings(jdbc: Client, connect: Client, servers: Servers) -> None:
    """Catalog, namespace, configuration, variables and views of one session are not those of another."""
    make(jdbc, "plain")
    others = [servers.thrift(), servers.connect()]
    key = "spark.colocation.write.idempotencyKey"
    for client in (jdbc, connect):
        client.run(f"USE {IN}")
        client.run(f"SET {key} = mine")
        client.run("CREATE TEMPORARY VIEW mine AS SELECT 1")
        client.run("DECLARE VARIABLE number INT DEFAULT 1")
        assert client.run("SELECT count(*) FROM plain") == [("0",)]
    for client in (*others, servers.thrift(), servers.connect()):
        assert client.run("SELECT current_catalog(), current_schema()") == [("spark_catalog", "default")]
        assert client.run(f"SET {key}")[0][1] != "mine"
        for unknown in ("SELECT * FROM mine", "SELECT number", "SELECT * FROM plain"):
            with pytest.raises(SqlError, match=r"TABLE_OR_VIEW_NOT_FOUND|UNRESOLVED_COLUMN"):
                client.run(unknown)
        client.close()


def test_a_key_commits_once(jdbc: Client, connect: Client, servers: Servers) -> None:
    """Sent by two clients at once; and sent again by a client that lost its session before it got an answer."""
    table = make(jdbc, "keyed")
    insert = f"INSERT INTO {table} WITH ('idempotency-key' = '{{key}}') SELECT id, {{value}} FROM range(20)"
    for value in range(ROUNDS):
        repeated = insert.format(key=f"day-{value}", value=value)
        errors = at_once(partial(jdbc.run, repeated), partial(connect.run, repeated))
        assert errors == ["", ""]
    counts = [(str(value), "20") for value in range(ROUNDS)]
    assert jdbc.run(f"SELECT v, count(*) FROM {table} GROUP BY v ORDER BY v") == counts
    for value, open_client in ((98, servers.thrift), (99, servers.connect)):
        lost, repeated = open_client(), insert.format(key=f"lost-{value}", value=value)
        with ThreadPoolExecutor(1) as threads:
            sending = threads.submit(at_once, partial(lost.run, repeated))
            time.sleep(0.5)
            lost.close()
            sending.result()
        with closing(open_client()) as again:
            again.run(repeated)
        counts.append((str(value), "20"))
    assert connect.run(f"SELECT v, count(*) FROM {table} GROUP BY v ORDER BY v") == counts
