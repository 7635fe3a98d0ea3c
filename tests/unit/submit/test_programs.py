"""The SparkApplications of `colocation load` and `colocation sql`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from colocation.submit import ManifestError, prepare
from colocation.submit.manifest import APACHE, ApplicationKind
from colocation.submit.programs import (
    CompactRequest,
    DropPartitionsRequest,
    LoadRequest,
    RebucketRequest,
    RollBackRequest,
    SqlRequest,
    TableRequest,
    empty_base,
    split_expressions,
    sql_application,
    table_application,
)

from .applications_under_test import sales_group

ORDERS = LoadRequest(table="orders", path="s3a://lake/orders", select="*, year(day) as y", mode="overwrite")
READER = "0" * 64
APACHE_FIELDS = {"pyFiles", "driverArgs", "runtimeVersions", "sparkConf"}


def base(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "spec": spec}


def test_a_load_runs_the_images_program() -> None:
    """The arguments are those of the image's load.py."""
    spec = table_application(ORDERS, sales_group())["spec"]
    assert spec["mainApplicationFile"] == "local:///opt/colocation/jobs/load.py"
    assert spec["arguments"] == [
        "orders", "--namespace", "shop", "--from", "s3a://lake/orders", "--format", "parquet", "--mode", "overwrite",
        "--select", "*", "year(day) as y",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("request_type", "program", "name", "executors"),
    [
        pytest.param(LoadRequest, "load.py", "load-orders-", 7, id="load"),
        pytest.param(CompactRequest, "compact.py", "compact-orders-", 7, id="compact"),
        pytest.param(DropPartitionsRequest, "drop_partitions.py", "drop-partitions-orders-", 1, id="drop partitions"),
        pytest.param(partial(RebucketRequest, buckets=16), "rebucket.py", "rebucket-orders-", 7, id="rebucket"),
        pytest.param(partial(RollBackRequest, snapshot_id=3), "roll_back.py", "roll-back-orders-", 1, id="roll back"),
    ],
)
def test_each_request_has_its_program(
    request_type: Callable[..., TableRequest], program: str, name: str, executors: int
) -> None:
    """By the request's type; the driver alone does what moves no rows, whatever the base has."""
    application = table_application(request_type(table="orders"), sales_group(), base(executor={"instances": 7}))
    assert application["metadata"]["generateName"] == name
    assert application["spec"]["mainApplicationFile"].rpartition("/")[2] == program
    assert application["spec"]["executor"]["instances"] == executors


def test_a_statement_is_never_taken_for_an_option() -> None:
    """A statement may begin with a comment."""
    application = sql_application(SqlRequest(statement="-- all\nselect 1", explain=True, reader=READER), sales_group())
    assert application["spec"]["arguments"] == [
        "--namespace", "shop", "--reader", READER, "--explain", "--", "-- all\nselect 1",
    ]  # fmt: skip


def test_a_job_can_be_submitted_as_it_is() -> None:
    """Without a base the application is complete: prepare takes it, with one executor per node of the group."""
    application = prepare(table_application(ORDERS, sales_group()), sales_group()).application
    assert application["metadata"]["generateName"] == "load-orders-"
    assert application["spec"]["image"] == "spark:installed"
    assert application["spec"]["driver"]["serviceAccount"] == "spark"
    assert application["spec"]["executor"]["instances"] == 3


def test_the_base_application_decides_all_but_the_program() -> None:
    """Image, accounts, sizes, configuration and name of the base stay."""
    theirs = base(
        image="mine", sparkVersion="4.3.0", sparkConf={"spark.hadoop.fs.s3a.endpoint": "http://minio"},
        driver={"serviceAccount": "etl", "memory": "4g"}, executor={"instances": 7},
    )  # fmt: skip
    theirs["metadata"] = {"name": "nightly", "labels": {"team": "lake"}}
    application = table_application(ORDERS, sales_group(), theirs)
    assert application["metadata"]["name"] == "nightly"
    assert application["metadata"]["labels"] == {"team": "lake", "colocation.dev/group": "sales"}
    spec = application["spec"]
    assert (spec["image"], spec["sparkVersion"]) == ("mine", "4.3.0")
    assert spec["driver"] == {"serviceAccount": "etl", "memory": "4g", "coreRequest": "500m"}
    assert spec["executor"] == {"instances": 7}
    assert spec["sparkConf"] == {"spark.hadoop.fs.s3a.endpoint": "http://minio"}


def apache_base(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "spark.apache.org/v1beta1", "kind": "SparkApplication", "spec": spec}


@pytest.mark.parametrize("kind", APACHE, ids=lambda kind: str(kind.version))
def test_jobs_of_apaches_operator(kind: ApplicationKind) -> None:
    """The same programs with the same arguments, in fields that its CRD has; prepare takes them."""
    request = SqlRequest(statement="select 1", reader=READER)
    for made, kubeflow in (
        (table_application(ORDERS, sales_group(), empty_base(kind)), table_application(ORDERS, sales_group())),
        (sql_application(request, sales_group(), empty_base(kind)), sql_application(request, sales_group())),
    ):
        spec, other = made["spec"], kubeflow["spec"]
        assert (made["apiVersion"], spec.keys()) == (kind.api_version, APACHE_FIELDS)
        assert (spec["pyFiles"], spec["driverArgs"]) == (other["mainApplicationFile"], other["arguments"])
        assert spec["runtimeVersions"] == {"sparkVersion": other["sparkVersion"]}
        assert made["metadata"] == kubeflow["metadata"]
        conf = prepare(made, sales_group()).application["spec"]["sparkConf"]
        assert conf["spark.executor.instances"] == "3"
        assert conf["spark.kubernetes.authenticate.driver.serviceAccountName"] == "spark"
        assert conf["spark.kubernetes.authenticate.executor.serviceAccountName"] == "spark"
        assert conf["spark.kubernetes.container.image"] == "spark:installed"


def test_apaches_base_application_decides_all_but_the_program() -> None:
    """Version, templates and configuration stay; partitions are dropped by the driver alone."""
    conf = {"spark.executor.instances": "7", "spark.kubernetes.authenticate.driver.serviceAccountName": "etl"}
    theirs = apache_base(sparkConf=conf, runtimeVersions={"sparkVersion": "4.3.0"}, driverSpec={"podTemplateSpec": {}})
    spec = table_application(ORDERS, sales_group(), theirs)["spec"]
    request = {"spark.kubernetes.driver.request.cores": "500m"}
    assert (spec["sparkConf"], spec["runtimeVersions"]) == ({**conf, **request}, {"sparkVersion": "4.3.0"})
    assert spec["driverSpec"] == {"podTemplateSpec": {}}
    dropped = table_application(DropPartitionsRequest(table="orders"), sales_group(), theirs)["spec"]
    assert dropped["sparkConf"]["spark.executor.instances"] == "1"


@pytest.mark.parametrize("theirs", [
    pytest.param(base(driver={"cores": 2}), id="cores"),
    pytest.param(base(driver={"coreRequest": "200m"}), id="a request"),
    pytest.param(base(sparkConf={"spark.driver.cores": "2"}), id="cores by configuration"),
    pytest.param(base(sparkConf={"spark.kubernetes.driver.request.cores": "2"}), id="a request by configuration"),
    pytest.param(apache_base(sparkConf={"spark.driver.cores": "2"}), id="Apache's"),
])  # fmt: skip
def test_a_given_size_of_the_driver_stays(theirs: dict[str, Any]) -> None:
    """Only where nothing is given, the driver asks for half a processor."""
    spec = table_application(ORDERS, sales_group(), theirs)["spec"]
    given = theirs["spec"].get("driver", {})
    assert {key: value for key, value in spec.get("driver", {}).items() if key != "serviceAccount"} == given
    assert "500m" not in (spec.get("sparkConf") or {}).values()


def test_dynamic_allocation_of_apaches_base_stays() -> None:
    """No number of executors is added."""
    theirs = apache_base(sparkConf={"spark.dynamicAllocation.enabled": "true"})
    conf = table_application(ORDERS, sales_group(), theirs)["spec"]["sparkConf"]
    assert "spark.executor.instances" not in conf


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        pytest.param({"kind": "Pod", "apiVersion": "v1"}, "kind 'Pod'", id="another kind"),
        pytest.param(base(mainApplicationFile="local:///mine.py"), "local:///mine.py", id="a program of its own"),
        pytest.param(apache_base(jars="mine.jar"), "spec.jars of the base application is", id="Apache's program"),
        pytest.param(base(driver=[]), r"spec.driver is \[\]", id="driver is a list"),
    ],
)
def test_a_base_that_cannot_be_one_is_refused(theirs: dict[str, Any], message: str) -> None:
    """The message has the base's value."""
    with pytest.raises(ManifestError, match=message):
        table_application(ORDERS, sales_group(), theirs)


@pytest.mark.parametrize(
    ("text", "expressions"),
    [
        pytest.param("*", ["*"], id="one"),
        pytest.param("*, year(d) as y", ["*", "year(d) as y"], id="two"),
        pytest.param("coalesce(a, b) as c, d", ["coalesce(a, b) as c", "d"], id="comma in brackets"),
        pytest.param("'a,b' as x, `odd,name`", ["'a,b' as x", "`odd,name`"], id="comma in quotes"),
        pytest.param("'it''s, ok', b", ["'it''s, ok'", "b"], id="doubled quote"),
        pytest.param("map('(', 1) as m, b", ["map('(', 1) as m", "b"], id="bracket in quotes"),
    ],
)
def test_a_select_list_is_split_at_its_commas(text: str, expressions: list[str]) -> None:
    """Commas in brackets and quotes belong to the expression."""
    assert split_expressions(text) == expressions


@pytest.mark.parametrize("text", ["", "a,", ",a", "f(a", "a)", "'a"])
def test_a_broken_select_list_is_refused(text: str) -> None:
    """Before an application is started for it."""
    with pytest.raises(ManifestError, match="is not a list of expressions"):
        split_expressions(text)
