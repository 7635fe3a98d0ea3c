"""`colocation sql`: from the driver that has the rows to standard output, and what becomes of the application."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import ProtocolError

from colocation.cli.errors import CommandFailed
from colocation.cli.jobs import launch, statement, statement_rows
from colocation.cli.jobs.statement import describe_commit
from colocation.cli.port_forward import PodUnreachable
from colocation.model.driver_output import columns_line, row_line, summary_line, token_digest
from colocation.model.names import LABEL_GROUP, LABEL_GROUP_NAMESPACE, LABEL_PRIVATE

from ...submit.fake_applications import FakeApplications, Step, VirtualTime
from ..conftest import FakeCluster, Run, group_object, table_object
from .test_applications import group_elsewhere

JOIN = {"join": "SortMergeJoin", "type": "Inner", "keys": ["a = b"], "tables": ["shop.a", "shop.b"], "colocate": True,
        "reason": ""}  # fmt: skip
SUMMARY = {"exchanges": 0, "joins": [JOIN]}
NO_TABLE = "is FAILED: ValueError: no such table"
ROWS = [
    columns_line(["mode", "lines"]) + row_line(["MAIL", 2]), row_line(["SHIP, slow", None]), summary_line(SUMMARY),
]  # fmt: skip
NOT_YET = (202, b"")
REFUSED = PodUnreachable("connection refused")

Answer = bytes | tuple[int, bytes] | BaseException


class FakePort:
    """Answers requests in turn: a chunk, a status, or an error. Notes what was asked for, by whom."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.pods: list[str] = []
        self.digest = ""

    def get(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        self.asked.append(path)
        self.digest = token_digest(headers["Authorization"].removeprefix("Bearer "))
        answer = self.answers.pop(0) if self.answers else REFUSED
        if isinstance(answer, BaseException):
            raise answer
        return (200, answer) if isinstance(answer, bytes) else answer

    def close(self) -> None:
        """There is nothing to close."""


Driver = Callable[..., FakeApplications]


@pytest.fixture
def port() -> FakePort:
    """The port of the driver's pod."""
    return FakePort([])


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, port: FakePort) -> Driver:
    """``driver(answers, *states, log=…)``: an application in these states, whose driver gives these answers."""

    def installed(answers: Sequence[Answer], *states: Step, log: str = "") -> FakeApplications:
        fake, time = FakeApplications(states or ["RUNNING"], log=log), VirtualTime()
        port.answers = list(answers)
        monkeypatch.setattr(launch, "KubernetesApplications", lambda connection, kind: fake)
        monkeypatch.setattr(statement, "PodPort", lambda connection, namespace, pod, _: port.pods.append(pod) or port)
        monkeypatch.setattr(statement, "TIME", statement_rows.Time(time.clock, time.sleep))
        return fake

    return installed


def test_sql_prints_rows_as_a_table(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """NULL is a dash; --explain adds a line per join in EXPLAIN's words."""
    driver(ROWS)
    done = run("sql", "select 1", "--explain")
    assert done.stdout.splitlines() == [
        "mode         lines", "MAIL         2", "SHIP, slow   -",
        "SortMergeJoin Inner of shop.a, shop.b: colocate: true",
    ]  # fmt: skip


def test_sql_prints_rows_as_csv(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """Quoted where needed; lists are JSON."""
    driver([*ROWS[:2], row_line(["a\nb", [1, "x"]]) + row_line([True, 1.5]), ROWS[2]])
    assert run("sql", "select 1", "--format", "csv").stdout == (
        'mode,lines\nMAIL,2\n"SHIP, slow",\n"a\nb","[1, ""x""]"\ntrue,1.5\n'
    )


@pytest.mark.parametrize("rows", [[], [["MAIL", 2], ["SHIP, slow", None]]])
def test_sql_prints_all_as_json(run: Run, cluster: FakeCluster, driver: Driver, rows: list[list[Any]]) -> None:
    """One document: columns, rows, and the rest of the driver's answer."""
    driver([columns_line(["mode", "lines"]) + b"".join(map(row_line, rows)), summary_line(SUMMARY)])
    document = json.loads(run("sql", "select 1", "-o", "json").stdout)
    assert document == {"columns": ["mode", "lines"], "rows": rows, **SUMMARY}


def test_a_command_without_rows_prints_nothing(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """CREATE TABLE and the like have no columns."""
    driver([columns_line([]) + summary_line({})])
    done = run("sql", "create table t (k bigint)")
    assert (done.exit_code, done.stdout) == (0, "")


@pytest.mark.parametrize(("change", "rows", "snapshot_id", "before", "line"), [
    pytest.param("append", 2, 4, False, "shop.t: append, 2 rows in 1 file; snapshot 4", id="rows"),
    pytest.param("append", 0, 4, True, "shop.t: append was committed before, as snapshot 4; nothing is changed",
                 id="a repeated key"),
    pytest.param("append", 0, 3, False, "shop.t: append, no rows: nothing is committed", id="no rows"),
    pytest.param("drop-partitions", 0, 5, False, "shop.t: drop-partitions; snapshot 5", id="a DELETE"),
    pytest.param("overwrite", 0, 5, False, "shop.t: overwrite; snapshot 5", id="emptied"),
])  # fmt: skip
@pytest.mark.parametrize("output", ["table", "csv", "json"])
def test_a_statement_shows_what_it_committed(
    run: Run, cluster: FakeCluster, driver: Driver, output: str, change: str, rows: int, snapshot_id: int,
    before: bool, line: str,
) -> None:  # fmt: skip
    """With a table they are in the output, with CSV on standard error, with JSON in the document."""
    done = {"table": "shop.t", "change": change, "rows": rows, "files": min(rows, 1), "snapshot_id": snapshot_id,
            "was_committed_before": before}  # fmt: skip
    driver([columns_line([]) + summary_line({"commits": [done]})])
    printed = run("sql", "insert into t select 1", "-o", output)
    assert printed.exit_code == 0
    if output == "json":
        assert json.loads(printed.stdout)["commits"] == [done]
    else:
        assert line in (printed.stdout if output == "table" else printed.stderr).splitlines()
        assert (printed.stdout == "") == (output == "csv")


def test_a_row_change_shows_how_many_rows_it_changed() -> None:
    """Rows in new files are mostly copies of what was there."""
    done = {"table": "shop.t", "change": "merge", "rows": 1000, "files": 2, "snapshot_id": 4,
            "was_committed_before": False, "rows_inserted": 1, "rows_updated": 2, "rows_deleted": 3,
            "files_removed": 1}  # fmt: skip
    assert describe_commit(done) == (
        "shop.t: merge, rows: 1 inserted, 2 updated, 3 deleted; 1 file replaced by 2; snapshot 4"
    )
    nothing = {**done, "files": 0, "files_removed": None}
    assert describe_commit(nothing) == "shop.t: merge, no rows: nothing is committed"


def test_cells_of_a_table_stay_in_their_line(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """What a row holds does nothing to the terminal."""
    driver([columns_line(["a"]) + row_line(["x\ny\x1b[2J"]) + summary_line({})])
    assert run("sql", "select 1").stdout.splitlines() == ["a", "x\\ny\\x1b[2J"]


def test_the_rows_are_fetched_from_the_driver_with_the_token(
    run: Run, cluster: FakeCluster, driver: Driver, port: FakePort
) -> None:
    """The application holds the token's digest only; the last request confirms that all has arrived."""
    created = driver([NOT_YET, *ROWS])
    assert run("sql", "select 1").exit_code == 0
    [(name, application)] = created.objects.items()
    arguments = application["spec"]["arguments"]
    assert arguments[arguments.index("--reader") + 1] == port.digest
    assert port.pods == [f"{name}-driver"]
    assert port.asked == [f"/v1/result/{number}" for number in (0, 0, 1, 2, 3)]
    assert created.deleted == []


def test_a_lost_connection_is_made_again(run: Run, cluster: FakeCluster, driver: Driver, port: FakePort) -> None:
    """The driver is not there at once; in the middle the same chunk is asked for again."""
    driver([REFUSED, REFUSED, ROWS[0], REFUSED, NOT_YET, *ROWS[1:], REFUSED])
    done = run("sql", "select 1", "-o", "csv")
    assert done.stdout == 'mode,lines\nMAIL,2\n"SHIP, slow",\n'
    assert port.asked == [f"/v1/result/{number}" for number in (0, 0, 0, 1, 1, 1, 2, 3)]


AWAY = [ApiException(status=503, reason="restarting"), ProtocolError("reset"), CommandFailed("it is not ready")]


def test_an_api_server_that_restarts_in_the_middle_of_the_rows(
    run: Run, cluster: FakeCluster, driver: Driver, port: FakePort
) -> None:
    """It breaks the port-forward, and does not say how the application is; the rows come all the same."""
    driver([ROWS[0], *[REFUSED] * 4, *ROWS[1:]], "RUNNING", *AWAY, "RUNNING")
    done = run("sql", "select 1", "-o", "csv")
    assert (done.exit_code, done.stdout) == (0, 'mode,lines\nMAIL,2\n"SHIP, slow",\n'), done.stderr
    assert port.asked == [f"/v1/result/{number}" for number in (0, 1, 1, 1, 1, 1, 2, 3)]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(AWAY[0], "is lost since 61 s, in the middle of its rows", id="it stays away"),
        pytest.param(ApiException(status=404, reason="Not Found"), "the cluster answered 404: Not Found", id="deleted"),
    ],
)
def test_rows_that_no_one_can_fetch_any_more(
    run: Run, cluster: FakeCluster, driver: Driver, error: Exception, message: str
) -> None:
    """After a minute, or at once where waiting is in vain."""
    driver([ROWS[0], *[REFUSED] * 90], "RUNNING", error)
    done = run("sql", "select 1")
    assert done.exit_code == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("answers", "states", "message", "deleted"),
    [
        pytest.param([], ["FAILED"], NO_TABLE, False, id="the statement is wrong"),
        pytest.param([ROWS[0], REFUSED], ["RUNNING", "RUNNING", "FAILED"], NO_TABLE, False,
                     id="the driver dies in the middle"),
        pytest.param([REFUSED], ["RUNNING", "COMPLETED"],
                     "has given no result: it ended before its result was fetched; the last thing that went wrong on "
                     "the way to it: connection refused; the statement was run all the same", False,
                     id="never reached"),
        pytest.param([ROWS[0], *[REFUSED] * 90], ["RUNNING"], "is lost since 61 s, in the middle of its rows", True,
                     id="the connection stays lost"),
        pytest.param([PodUnreachable("no", forbidden=True)], ["RUNNING"], "create pods/portforward", True,
                     id="no right to reach it"),
        pytest.param([(401, b"the result is for the one who asked")], ["RUNNING"], "answered 401", True,
                     id="somebody else's driver"),
        pytest.param([b"what?\n"], ["RUNNING"], "is the driver's image of another version?", True, id="no result"),
        pytest.param([NOT_YET] * 90, ["RUNNING"], "has given no rows in the time that --timeout allows", True,
                     id="too slow"),
        pytest.param([ROWS[0], KeyboardInterrupt()], ["RUNNING"], "interrupted while SparkApplication", True,
                     id="Ctrl-C"),
    ],
)  # fmt: skip
def test_a_result_that_does_not_come(
    run: Run, cluster: FakeCluster, driver: Driver, answers: list[Answer], states: list[str], message: str,
    deleted: bool,
) -> None:  # fmt: skip
    """The reason is said, and no driver is left waiting for a reader that does not come."""
    created = driver(answers, *states, log="Traceback (most recent call last):\n  File y\nValueError: no such table")
    done = run("sql", "select 1", "--timeout", "50")
    assert done.exit_code == 1
    assert message in done.stderr
    assert (len(created.deleted), "deleted, because nothing would fetch" in done.stderr) == (deleted, deleted)


def test_rows_have_to_be_waited_for(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """Only this command fetches them."""
    created = driver(ROWS)
    done = run("sql", "select 1", "--no-wait")
    assert (done.exit_code, created.objects) == (2, {})
    assert "takes no --no-wait" in done.stderr


@pytest.mark.parametrize(
    ("served", "options", "api_version"),
    [
        pytest.param({"sparkoperator.k8s.io": ("v1beta2",)}, [], "sparkoperator.k8s.io/v1beta2", id="Kubeflow's"),
        pytest.param({"spark.apache.org": ("v1beta1", "v1alpha1")}, [], "spark.apache.org/v1beta1", id="Apache's"),
        pytest.param({"sparkoperator.k8s.io": ("v1beta2",), "spark.apache.org": ("v1",)}, [],
                     "sparkoperator.k8s.io/v1beta2", id="both"),
        pytest.param({"sparkoperator.k8s.io": ("v1beta2",), "spark.apache.org": ("v1",)}, ["--operator", "apache"],
                     "spark.apache.org/v1", id="the chosen one"),
        pytest.param({"spark.apache.org": ("v1",)}, ["--operator", "kubeflow"], "sparkoperator.k8s.io/v1beta2",
                     id="chosen, not there"),
        pytest.param({}, [], "sparkoperator.k8s.io/v1beta2", id="none"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", [["sql", "select 1"], ["load", "orders", "--from", "x"]])
def test_the_installed_operator_runs_the_application(
    run: Run, cluster: FakeCluster, command: list[str], served: dict[str, tuple[str, ...]], options: list[str],
    api_version: str,
) -> None:  # fmt: skip
    """Unless another one is chosen; where there is none, creating the application fails with that."""
    cluster.served = served
    done = run(*command, *options, "--dry-run", "--service-account", "etl")
    made = yaml.safe_load(done.stdout)
    assert made["apiVersion"] == api_version
    assert "etl" in json.dumps(made["spec"])


def test_a_base_of_another_operator_is_refused(run: Run, cluster: FakeCluster) -> None:
    """--operator and the manifest contradict each other."""
    base = yaml.safe_dump({"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"})
    done = run("sql", "select 1", "--operator", "apache", "--application", "-", stdin=base)
    assert done.exit_code == 2
    assert "allowed with --operator apache: spark.apache.org/v1, " in done.stderr


def test_sql_settings_reach_the_application(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """--set may be repeated, and a value may hold an equals sign."""
    created = driver(ROWS)
    run("sql", "select 1", "--set", "spark.a=1", "--set", "spark.b=x=y")
    (application,) = created.objects.values()
    assert application["spec"]["sparkConf"]["spark.a"] == "1"
    assert application["spec"]["sparkConf"]["spark.b"] == "x=y"


def test_sql_without_a_group_shows_how_to_make_one(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """Spark would not know where to run."""
    cluster.groups().clear()
    cluster.tables().clear()
    done = run("sql", "select 1")
    assert done.exit_code == 2
    assert "namespace 'shop' has no group to run with: make one" in done.stderr


@pytest.mark.parametrize("command", [
    pytest.param(("sql", "select count(*) from orders"), id="sql"), pytest.param(("groups",), id="groups"),
    pytest.param(("tables",), id="tables"), pytest.param(("recover", "orders"), id="recover"),
])  # fmt: skip
def test_a_namespace_that_does_not_exist(run: Run, cluster: FakeCluster, command: tuple[str, ...]) -> None:
    """The API server answers with empty lists."""
    cluster.groups().clear()
    cluster.tables().clear()
    cluster.has_namespace = False
    done = run(*command)
    assert (done.exit_code, done.stderr) == (1, "error: there is no namespace 'shop'\n")


@pytest.mark.parametrize(("statement", "group"), [
    pytest.param("select * from visits", "web", id="its table's group"),
    pytest.param("SELECT * FROM shop.`Visits` v", "web", id="however the table is written"),
    pytest.param("select * from orders join visits using (k)", "sales", id="most bytes"),
    pytest.param("select 'visits', \"visits\" -- visits\n/* visits */", "sales", id="names in texts and comments"),
    pytest.param("show tables", "sales", id="no table: the group with most bytes"),
    pytest.param("select * from lost", "sales", id="a table whose group is not there"),
])  # fmt: skip
def test_sql_runs_next_to_the_statements_tables(
    run: Run, cluster: FakeCluster, driver: Driver, statement: str, group: str
) -> None:
    """Of several groups, that of the tables it names; one without tables is never taken."""
    visits = table_object("visits", colocateWith="web")
    visits["status"]["snapshot"]["bytes"] = 1
    cluster.tables().extend([visits, table_object("lost", colocateWith="nowhere")])
    cluster.groups().extend([group_object("web"), group_object("empty")])
    created = driver(ROWS)
    done = run("sql", statement)
    assert done.exit_code == 0, done.stderr
    (application,) = created.objects.values()
    assert application["metadata"]["labels"][LABEL_GROUP] == group


@pytest.mark.parametrize("names", [["a"], ["b", "a"]])
def test_sql_next_to_groups_without_tables(run: Run, cluster: FakeCluster, driver: Driver, names: list[str]) -> None:
    """Any of them: there is nothing to be near to."""
    cluster.tables().clear()
    cluster.groups()[:] = [group_object(name) for name in names]
    created = driver(ROWS)
    assert run("sql", "show tables").exit_code == 0
    (application,) = created.objects.values()
    assert application["metadata"]["labels"][LABEL_GROUP] == "a"


def test_sql_leaves_groups_of_single_tables_aside(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """A table that is in no group has one that the operator made; users never chose it."""
    private = group_object("visits-0badcafe")
    private["metadata"]["labels"] = {LABEL_PRIVATE: "true"}
    cluster.groups().append(private)
    created = driver(ROWS)
    assert run("sql", "select 1").exit_code == 0
    (application,) = created.objects.values()
    assert application["metadata"]["labels"][LABEL_GROUP] == "sales"


def test_sql_next_to_the_only_group_of_a_single_table(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """Where no table is in a group, that group is the one to run with."""
    cluster.groups()[0]["metadata"]["labels"] = {LABEL_PRIVATE: "true"}
    driver(ROWS)
    assert run("sql", "select 1").exit_code == 0


def test_sql_is_not_hindered_by_a_table_that_cannot_be_read(
    run: Run, cluster: FakeCluster, driver: Driver
) -> None:
    """Its status, or its spec of a newer version, is that table's fault alone."""
    driver(ROWS)
    cluster.tables().append({**table_object("bad"), "status": {"group": 7}})
    cluster.tables().append({**table_object("newer"), "spec": {"of": "a newer version"}})
    assert run("sql", "select 1").exit_code == 0


def test_sql_next_to_a_group_of_another_namespace(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """The namespace has no group of its own; its table names one of another."""
    group = group_elsewhere(cluster)
    created = driver(ROWS)
    refused = run("sql", "select 1")
    assert (refused.exit_code, created.objects) == (2, {})
    group["spec"]["allowedNamespaces"] = ["shop"]
    assert run("sql", "select 1").exit_code == 0
    (application,) = created.objects.values()
    labels = application["metadata"]["labels"]
    assert (labels[LABEL_GROUP], labels[LABEL_GROUP_NAMESPACE]) == ("sales", "accounts")


def test_sql_next_to_a_chosen_group(run: Run, cluster: FakeCluster, driver: Driver) -> None:
    """--group places the application."""
    cluster.groups()[:] = [group_object("a"), group_object("b")]
    created = driver(ROWS)
    assert run("sql", "select 1", "--group", "b").exit_code == 0
    (application,) = created.objects.values()
    assert application["metadata"]["labels"][LABEL_GROUP] == "b"
