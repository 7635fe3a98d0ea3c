"""`--direct`: a prepared application as the Job whose pod is the driver."""

import json
from typing import Any

import pytest
from kubernetes.client import ApiClient

from colocation.submit import ManifestError, prepare
from colocation.submit.clients import KubernetesApplications
from colocation.submit.direct import DirectSubmission, direct_submission, driver_job, mebibytes
from colocation.submit.manifest import CONNECT, KUBEFLOW, ApplicationKind

from .applications_under_test import apache_application, sales_group, schedule, spark_application


def submission(application: dict[str, Any], name: str = "report") -> DirectSubmission:
    return direct_submission(prepare(application, sales_group()), name)


def job(application: dict[str, Any]) -> dict[str, Any]:
    return driver_job(submission(application))


def driver(application: dict[str, Any]) -> dict[str, Any]:
    """The Job's pod template."""
    found: dict[str, Any] = job(application)["spec"]["template"]
    return found


def configuration(pod: dict[str, Any]) -> dict[str, str]:
    """What the driver's command line configures; the last word counts."""
    words = pod["spec"]["containers"][0]["args"]
    pairs = [words[index + 1].partition("=") for index, word in enumerate(words) if word == "--conf"]
    return {key: value for key, _, value in pairs}


BOTH = pytest.mark.parametrize(
    "application", [pytest.param(spark_application(), id="Kubeflow"), pytest.param(apache_application(), id="Apache")]
)


@BOTH
def test_the_executors_template_travels_with_the_pod(application: dict[str, Any]) -> None:
    """The driver makes the executors from it; it is the one that an operator would get."""
    pod = driver(application)
    file = configuration(pod)["spark.kubernetes.executor.podTemplateFile"]
    folder, _, name = file.rpartition("/")
    [mount] = [item for item in pod["spec"]["containers"][0]["volumeMounts"] if item["mountPath"] == folder]
    [volume] = [item for item in pod["spec"]["volumes"] if item["name"] == mount["name"]]
    [annotation] = [key for key, value in pod["metadata"]["annotations"].items() if value.startswith("{")]
    field = {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}
    assert volume["downwardAPI"] == {"items": [field]}
    template = json.loads(pod["metadata"]["annotations"][annotation])
    spec = prepare(application, sales_group()).application["spec"]
    wanted = spec["executor"]["template"] if "executor" in spec else spec["executorSpec"]["podTemplateSpec"]
    assert (template["kind"], template["spec"]) == ("Pod", wanted["spec"])


@BOTH
def test_the_driver_gets_token_and_authority(application: dict[str, Any]) -> None:
    """As an operator's driver does, from its pod template."""
    spec = driver(application)["spec"]
    [mount] = [item for item in spec["containers"][0]["volumeMounts"] if item["name"] == "colocation-access"]
    assert mount["mountPath"] == "/var/run/secrets/colocation.dev"
    [volume] = [item for item in spec["volumes"] if item["name"] == "colocation-access"]
    assert volume["projected"]["sources"][0]["serviceAccountToken"]["audience"] == "colocation.dev"


@BOTH
def test_a_job_runs_once_and_goes_by_itself(application: dict[str, Any]) -> None:
    """No second driver is started; an hour after its end the Job is deleted with its pod and its log."""
    made = job(application)
    assert (made["apiVersion"], made["kind"], made["metadata"]["name"]) == ("batch/v1", "Job", "report")
    assert made["metadata"]["namespace"] == "shop"
    spec = made["spec"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (0, 3600)
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


@BOTH
def test_driver_and_executors_are_found_by_label(application: dict[str, Any]) -> None:
    """Spark labels its executors with the application's id, which is its name here; spark-on-k8s' commands find it."""
    made = job(application)
    labels = {"colocation.dev/group": "sales", "spark-app-selector": "report"}
    assert made["metadata"]["labels"] == labels
    assert made["metadata"]["annotations"]["colocation.dev/decision"] == "colocate: true"
    pod = made["spec"]["template"]
    found_by_spark_on_k8s = {"spark-role": "driver", "spark-app-id": "report", "spark-app-name": "report"}
    assert pod["metadata"]["labels"] == {**labels, **found_by_spark_on_k8s}
    assert configuration(pod)["spark.app.id"] == "report"


@BOTH
def test_executors_reach_the_driver_and_are_owned_by_it(application: dict[str, Any]) -> None:
    """Its address and its name are known when it runs; Kubernetes fills them in."""
    pod = driver(application)
    sources = {item["name"]: item["valueFrom"]["fieldRef"]["fieldPath"]
               for item in pod["spec"]["containers"][0]["env"]}  # fmt: skip
    assert sources == {"SPARK_DRIVER_BIND_ADDRESS": "status.podIP", "SPARK_DRIVER_POD_NAME": "metadata.name"}
    conf = configuration(pod)
    assert conf["spark.driver.host"] == "$(SPARK_DRIVER_BIND_ADDRESS)"
    assert conf["spark.kubernetes.driver.pod.name"] == "$(SPARK_DRIVER_POD_NAME)"
    assert pod["spec"]["serviceAccountName"] == "spark"


def test_words_of_the_user_are_not_filled_in() -> None:
    """Kubernetes would replace $(NAME) by a variable, and $$ by $."""
    text = "SELECT regexp_replace(a, '$(TZ)$$', '')"
    pod = driver(spark_application(arguments=[text], sparkConf={"spark.x": "$(TZ)"}))
    assert pod["spec"]["containers"][0]["args"][-1] == text.replace("$", "$$")
    assert configuration(pod)["spark.x"] == "$$(TZ)"


def test_kubeflows_fields_become_configuration() -> None:
    """As Kubeflow's operator would pass them to spark-submit; a field overrules sparkConf."""
    pod = driver(spark_application(
        sparkConf={"spark.executor.memory": "9g", "spark.x": "y"},
        hadoopConf={"fs.s3a.endpoint": "http://s3"},
        arguments=["1", 2],
        imagePullPolicy="Always",
        nodeSelector={"disk": "fast"},
        deps={"jars": ["a.jar", "b.jar"], "pyFiles": ["c.py"]},
        executor={"instances": 3, "cores": 2, "memory": "512m", "coreRequest": "200m", "labels": {"team": "d"},
                  "envVars": {"A": "b"}, "javaOptions": "-Xss4m"},
    ))  # fmt: skip
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


def test_the_drivers_pod_is_what_the_manifest_describes() -> None:
    """Environment, sizes, labels, sidecars, security: none of it is lost."""
    application = spark_application(driver={
        "serviceAccount": "etl", "memory": "1g", "coreRequest": "200m", "coreLimit": "2", "labels": {"team": "d"},
        "annotations": {"note": "x"}, "env": [{"name": "TZ", "value": "UTC"}], "envVars": {"A": "b"},
        "envSecretKeyRefs": {"KEY": {"name": "s3", "key": "secret"}}, "sidecars": [{"name": "proxy", "image": "p"}],
        "podSecurityContext": {"runAsUser": 185}, "tolerations": [{"operator": "Exists"}],
    }, imagePullSecrets=["registry"])  # fmt: skip
    pod = driver(application)
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert [item["name"] for item in spec["containers"]] == ["spark-kubernetes-driver", "proxy"]
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
    conf = configuration(driver(spark_application(**spec)))
    assert conf["spark.dynamicAllocation.enabled"] == "true"
    assert conf["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
    assert conf["spark.executor.instances"] == instances


@pytest.mark.parametrize(
    ("main_file", "overhead"), [("local:///app/report.py", "410m"), ("local:///app/report.jar", "384m")]
)
def test_python_gets_memory_next_to_the_jvm(main_file: str, overhead: str) -> None:
    """Spark's own factors and minimum, as in its own submission."""
    conf = configuration(driver(spark_application(mainApplicationFile=main_file)))
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
        pytest.param(schedule(), "report", "--direct runs a SparkApplication, once", id="schedule"),
        pytest.param(spark_application(), "r" * 48, "at most 47", id="long name"),
        pytest.param(spark_application(), "a.b", "metadata.name is 'a.b'", id="name of no pod"),
    ],
)  # fmt: skip
def test_what_needs_an_operator_is_refused(application: dict[str, Any], name: str, message: str) -> None:
    """Better refused than lost."""
    with pytest.raises(ManifestError, match=message):
        submission(application, name)


@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        (KUBEFLOW, "(sparkapplications.sparkoperator.k8s.io); --direct runs applications without any"),
        (CONNECT, "(sparkconnects.sparkoperator.k8s.io); without it submit a SparkApplication that serves"),
    ],
)  # fmt: skip
def test_without_an_operator_direct_is_named_where_it_can_run(kind: ApplicationKind, needs: str) -> None:
    """`--direct` refuses a SparkConnect: the command would send its user from one refusal to the next."""
    assert needs in KubernetesApplications(ApiClient(), kind).needs


@pytest.mark.parametrize(
    ("text", "size"),
    [("512m", 512), ("1g", 1024), ("1G", 1024), ("2048k", 2), ("1t", 1 << 20), ("700", 700), ("1gb", 1024)],
)
def test_memory_is_read_as_spark_reads_it(text: str, size: int) -> None:
    """A bare number is MiB."""
    assert mebibytes(text) == size
