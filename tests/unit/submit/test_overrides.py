"""Options that override an application: --image, --service-account, --set, --secret."""

from typing import Any

import pytest

from colocation.submit import ManifestError, prepare
from colocation.submit.direct import direct_submission
from colocation.submit.direct_fields import configuration
from colocation.submit.prepare import Overrides, check_no_credentials, override

from .applications_under_test import apache_application, sales_group, schedule, spark_application

LAKE = {"secretRef": {"name": "lake"}}
EXISTING = {"configMapRef": {"name": "settings"}}


@pytest.mark.parametrize("made", [spark_application(), apache_application()], ids=["Kubeflow", "Apache"])
def test_image_and_account_are_overruled(made: dict[str, Any]) -> None:
    """For either operator; both pods run under the account."""
    override(made, Overrides(image="mine", service_account="etl"))
    spec = prepare(made, sales_group()).application["spec"]
    conf = configuration(spec) if "driver" in spec else spec["sparkConf"]
    assert conf["spark.kubernetes.container.image"] == "mine"
    for role in ("driver", "executor"):
        assert conf[f"spark.kubernetes.authenticate.{role}.serviceAccountName"] == "etl"


@pytest.mark.parametrize(
    ("made", "where"),
    [
        pytest.param(spark_application(sparkConf={"a": "1", "b": "1"}), (), id="Kubeflow"),
        pytest.param(apache_application(sparkConf={"a": "1", "b": "1"}), (), id="Apache"),
        pytest.param(schedule(sparkConf={"a": "1", "b": "1"}), ("template",), id="schedule"),
    ],
)
def test_settings_win_over_the_manifest(made: dict[str, Any], where: tuple[str, ...]) -> None:
    """--set is said last; the rest stays."""
    override(made, Overrides(conf={"a": "2"}))
    spec = made["spec"]
    for field in where:
        spec = spec[field]
    assert spec["sparkConf"] == {"a": "2", "b": "1"}


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(spark_application(), id="Kubeflow"),
        pytest.param(apache_application(), id="Apache"),
        pytest.param(
            spark_application(executor={"template": {"spec": {"containers": [{"name": "x", "envFrom": [EXISTING]}]}}}),
            id="Kubeflow with a template",
        ),
        pytest.param(spark_application(driver={"envFrom": [EXISTING, LAKE]}), id="named already"),
        pytest.param(
            apache_application(executorSpec={"podTemplateSpec": {"spec": {"containers": [{"name": "x"}]}}}),
            id="Apache with a template",
        ),
    ],
)
def test_a_secret_is_environment_of_driver_and_executors(made: dict[str, Any]) -> None:
    """By name, once, in Spark's container, also where the driver is a Job of ours; no value is in the manifest."""
    override(made, Overrides(secrets=("lake",)))
    direct = direct_submission(prepare(made, sales_group()), "report")
    for template in (direct.driver_template, direct.executor_template):
        assert template["spec"]["containers"][0]["envFrom"].count(LAKE) == 1


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.bucket.lake.session.token",
        "spark.hadoop.fs.azure.account.key.mine.dfs.example.com",
        "spark.hadoop.javax.jdo.option.ConnectionPassword",
        "spark.sql.catalog.lake.credential",
        "spark.sql.catalog.lake.token",
    ],
)
def test_credentials_are_refused(key: str) -> None:
    """The message names the key and the way, and does not repeat the value."""
    with pytest.raises(ManifestError, match=f"--set {key} .* --secret") as refusal:
        override(spark_application(), Overrides(conf={key: "hunter2"}))
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("value", ["AKIA", "env:NAME"])
def test_what_reads_no_variables_takes_no_credential(value: str) -> None:
    """S3A would take the text env:NAME itself for the key."""
    with pytest.raises(ManifestError, match="put it into a Secret"):
        check_no_credentials({"spark.hadoop.fs.s3a.secret.key": value})


def test_an_iceberg_catalog_takes_its_credential_from_a_secret() -> None:
    """The refusal explains how, and that works: the variable is the Secret's key in driver and executors."""
    key = "spark.sql.catalog.lake.credential"
    with pytest.raises(ManifestError, match=f"takes it from there by --set {key}=env:NAME"):
        override(spark_application(), Overrides(conf={key: "hunter2"}))
    made = spark_application()
    override(made, Overrides(conf={key: "env:CATALOG_CREDENTIAL"}, secrets=("lake",)))
    assert made["spec"]["sparkConf"][key] == "env:CATALOG_CREDENTIAL"
    assert made["spec"]["driver"]["envFrom"] == [LAKE]


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.kubernetes.driver.secretKeyRef.AWS_ACCESS_KEY_ID",
        "spark.colocation.tokenFile",
    ],
)  # fmt: skip
def test_what_only_names_credentials_is_allowed(key: str) -> None:
    """Providers, references to Secrets, and files."""
    made = spark_application()
    override(made, Overrides(conf={key: "x"}))
    assert made["spec"]["sparkConf"] == {key: "x"}
