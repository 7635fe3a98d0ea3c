"""`--direct`: a prepared application as the objects that the spark-on-k8s client makes, nothing sent."""

from typing import Any

import pytest
import yaml

from colocation.submit import ManifestError, prepare
from colocation.submit.direct import DirectSubmission, direct_submission, mebibytes
from colocation.submit.direct_client import render

from .applications_under_test import apache_application, sales_group, schedule, spark_application


def submission(application: dict[str, Any], name: str = "report") -> DirectSubmission:
    return direct_submission(prepare(application, sales_group()), name)


def made(application: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The objects by kind."""
    return {item["kind"]: item for item in render(submission(application))}


def configuration(pod: dict[str, Any]) -> dict[str, str]:
    """What the driver's command line configures; the last word counts."""
    words = pod["spec"]["containers"][0]["args"]
    pairs = [words[index + 1].partition("=") for index, word in enumerate(words) if word == "--conf"]
    return {key: value for key, _, value in pairs}


BOTH = pytest.mark.parametrize(
    "application", [pytest.param(spark_application(), id="Kubeflow"), pytest.param(apache_application(), id="Apache")]
)


@BOTH
def test_the_executors_template_travels_in_a_config_map(application: dict[str, Any]) -> None:
    """The driver makes the executors from it; it is the one that an operator would get."""
    objects = made(application)
    assert list(objects) == ["ConfigMap", "Pod", "Service"]
    driver = objects["Pod"]["spec"]
    file = configuration(objects["Pod"])["spark.kubernetes.executor.podTemplateFile"]
    folder, _, key = file.rpartition("/")
    [mount] = [item for item in driver["containers"][0]["volumeMounts"] if item["mountPath"] == folder]
    [volume] = [item for item in driver["volumes"] if item["name"] == mount["name"]]
    assert volume["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    template = yaml.safe_load(objects["ConfigMap"]["data"][key])
    spec = prepare(application, sales_group()).application["spec"]
    wanted = spec["executor"]["template"] if "executor" in spec else spec["executorSpec"]["podTemplateSpec"]
    assert (template["kind"], template["spec"]) == ("Pod", wanted["spec"])


@BOTH
def test_the_driver_gets_token_and_authority(application: dict[str, Any]) -> None:
    """spark-on-k8s has no pod template for drivers: the pod is completed with it."""
    driver = made(application)["Pod"]["spec"]
    [mount] = [item for item in driver["containers"][0]["volumeMounts"] if item["name"] == "colocation-access"]
    assert mount["mountPath"] == "/var/run/secrets/colocation.dev"
    [volume] = [item for item in driver["volumes"] if item["name"] == "colocation-access"]
    assert volume["projected"]["sources"][0]["serviceAccountToken"]["audience"] == "colocation.dev"


@BOTH
def test_the_objects_go_with_the_driver(application: dict[str, Any]) -> None:
    """Names are the application's; the Service is the driver's own."""
    objects = made(application)
    assert objects["Pod"]["metadata"]["name"] == "report-driver"
    assert objects["Pod"]["metadata"]["labels"]["colocation.dev/group"] == "sales"
    assert objects["Service"]["metadata"]["name"] == "report"
    assert objects["Service"]["metadata"]["ownerReferences"][0]["name"] == "report-driver"
    assert {item["metadata"]["namespace"] for item in objects.values()} == {"shop"}


def test_kubeflows_fields_become_configuration() -> None:
    """As Kubeflow's operator would pass them to spark-submit; a field overrules sparkConf."""
    pod = made(spark_application(
        sparkConf={"spark.executor.memory": "9g", "spark.x": "y"},
        hadoopConf={"fs.s3a.endpoint": "http://s3"},
        arguments=["1", 2],
        imagePullPolicy="Always",
        nodeSelector={"disk": "fast"},
        deps={"jars": ["a.jar", "b.jar"], "pyFiles": ["c.py"]},
        executor={"instances": 3, "cores": 2, "memory": "512m", "coreRequest": "200m", "labels": {"team": "d"},
                  "envVars": {"A": "b"}, "javaOptions": "-Xss4m"},
    ))["Pod"]  # fmt: skip
    wanted = {
        "spark.x": "y", "spark.hadoop.fs.s3a.endpoint": "http://s3", "spark.executor.memory": "512m",
        "spark.executor.cores": "2", "spark.executor.instances": "3", "spark.kubernetes.executor.request.cores": "200m",
        "spark.kubernetes.executor.label.team": "d", "spark.executorEnv.A": "b",
        "spark.executor.extraJavaOptions": "-Xss4m", "spark.jars": "a.jar,b.jar", "spark.submit.pyFiles": "c.py",
        "spark.kubernetes.container.image.pullPolicy": "Always", "spark.kubernetes.container.image": "spark:installed",
        "spark.kubernetes.authenticate.executor.serviceAccountName": "spark",
    }  # fmt: skip
    assert wanted.items() <= configuration(pod).items()
    assert pod["spec"]["containers"][0]["args"][-3:] == ["local:///app/report.py", "1", "2"]
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}


def test_the_drivers_pod_is_what_the_manifest_says() -> None:
    """Environment, sizes, labels, sidecars, security: none of it is lost for want of a parameter of the client's."""
    application = spark_application(driver={
        "serviceAccount": "etl", "memory": "1g", "coreRequest": "200m", "coreLimit": "2", "labels": {"team": "d"},
        "annotations": {"note": "x"}, "env": [{"name": "TZ", "value": "UTC"}], "envVars": {"A": "b"},
        "envSecretKeyRefs": {"KEY": {"name": "s3", "key": "secret"}}, "sidecars": [{"name": "proxy", "image": "p"}],
        "podSecurityContext": {"runAsUser": 185}, "tolerations": [{"operator": "Exists"}],
    }, imagePullSecrets=["registry"])  # fmt: skip
    pod = made(application)["Pod"]
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert [item["name"] for item in spec["containers"]] == ["driver", "proxy"]
    assert {item["name"] for item in container["env"]} >= {"SPARK_DRIVER_BIND_ADDRESS", "TZ", "A", "KEY"}
    assert container["resources"] == {
        "requests": {"cpu": "200m", "memory": "1434Mi"}, "limits": {"cpu": "2", "memory": "1434Mi"},
    }  # fmt: skip
    assert (spec["serviceAccountName"], spec["securityContext"]["runAsUser"]) == ("etl", 185)
    assert (spec["tolerations"], spec["imagePullSecrets"]) == ([{"operator": "Exists"}], [{"name": "registry"}])
    assert pod["metadata"]["labels"]["team"] == "d" and pod["metadata"]["annotations"]["note"] == "x"


@pytest.mark.parametrize(
    ("spec", "instances"),
    [
        pytest.param({"dynamicAllocation": {"enabled": True, "minExecutors": 1, "maxExecutors": 5}}, "3", id="field"),
        pytest.param({"sparkConf": {"spark.dynamicAllocation.enabled": "true"}}, "3", id="configuration"),
    ],
)
def test_dynamic_allocation_begins_with_the_instances(spec: dict[str, Any], instances: str) -> None:
    """And keeps executors that hold shuffle files."""
    conf = configuration(made(spark_application(**spec))["Pod"])
    assert conf["spark.dynamicAllocation.enabled"] == "true"
    assert conf["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
    assert conf["spark.executor.instances"] == instances


@pytest.mark.parametrize(
    ("main_file", "overhead"), [("local:///app/report.py", "410m"), ("local:///app/report.jar", "384m")]
)
def test_python_gets_memory_beside_the_jvm(main_file: str, overhead: str) -> None:
    """Spark's own factors and minimum, not the client's fixed 512 MiB."""
    conf = configuration(made(spark_application(mainApplicationFile=main_file))["Pod"])
    assert (conf["spark.executor.memory"], conf["spark.executor.memoryOverhead"]) == ("1g", overhead)


@pytest.mark.parametrize(
    ("application", "name", "message"),
    [
        pytest.param(spark_application(restartPolicy={"type": "Always"}), "report", "allowed with --direct: Never",
                     id="restarts"),
        pytest.param(spark_application(monitoring={"exposeDriverMetrics": True}), "report", "spec.monitoring",
                     id="Kubeflow's own"),
        pytest.param(spark_application(driver={"secrets": [{"name": "s"}]}), "report", "spec.driver.secrets",
                     id="Kubeflow's own of a driver"),
        pytest.param(spark_application(driver={"memory": "much"}), "report", "a memory size is 'much'", id="memory"),
        pytest.param(schedule(), "report", "--direct runs an application once", id="schedule"),
        pytest.param(spark_application(), "r" * 48, "at most 47", id="long name"),
        pytest.param(spark_application(), "a.b", "metadata.name is 'a.b'", id="name of no Service"),
    ],
)  # fmt: skip
def test_what_needs_an_operator_is_refused(application: dict[str, Any], name: str, message: str) -> None:
    """Better refused than lost."""
    with pytest.raises(ManifestError, match=message):
        submission(application, name)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512m", 512), ("1g", 1024), ("1G", 1024), ("2048k", 2), ("1t", 1 << 20), ("700", 700), ("1gb", 1024)],
)
def test_memory_is_read_as_spark_reads_it(text: str, size: int) -> None:
    """A bare number is MiB."""
    assert mebibytes(text) == size
