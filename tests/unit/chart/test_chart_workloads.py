"""The operator's Deployment and the agents' DaemonSet as the chart renders them."""

import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colocation.agent.server import CLOSING_SECONDS
from colocation.agent.settings import Settings
from colocation.manifests.clone_job import CloneJobSettings
from colocation.model.names import (
    AGENT_HEALTH_PORT,
    AGENT_PORT,
    LABEL_HOSTNAME,
    LABEL_LEADS,
    LABEL_ZONE,
    TOKEN_AUDIENCE,
    TOKEN_DIRECTORY,
)
from colocation.state.parse import parse_agent

from .conftest import CHART, REPOSITORY, ChartRefused, Render, one, only_container, variables

DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def operator(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return one(objects, "Deployment", "colocation-operator")


def agent(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return one(objects, "DaemonSet", "colocation-agent")


def test_helm_finds_nothing_to_complain_of(helm: Path) -> None:
    """`helm lint --strict` passes."""
    done = subprocess.run([str(helm), "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_upgraded_operator_stands_by_before_the_old_one_ends(render: Render) -> None:
    """It is ready then; the old one gives up the Lease when it ends."""
    assert operator(render())["spec"]["replicas"] == 1
    spec = operator(render(**{"operator.replicas": 2}))["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def test_two_operators_are_apart_and_not_drained_together(render: Render) -> None:
    """On two nodes in two zones where there are; a single one must not hold up a drain."""
    objects = render(**{"operator.replicas": 2})
    deployment = operator(objects)["spec"]
    spreads = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert {one["topologyKey"] for one in spreads} == {LABEL_HOSTNAME, LABEL_ZONE}
    assert all(one["whenUnsatisfiable"] == "ScheduleAnyway" for one in spreads)
    assert all(one["labelSelector"] == deployment["selector"] for one in spreads)
    budget = one(objects, "PodDisruptionBudget", "colocation-operator")["spec"]
    assert (budget["maxUnavailable"], budget["selector"]) == (1, deployment["selector"])
    assert not any(item["kind"] == "PodDisruptionBudget" for item in render())


@pytest.mark.parametrize("name", ["colocation-operator", "colocation-webhooks"])
def test_callers_reach_the_operator_that_leads(render: Render, name: str) -> None:
    """One that stands by is ready, and has no answers; the label is the one that the leader keeps."""
    selector = one(render(**{"webhooks.enabled": True}), "Service", name)["spec"]["selector"]
    labels = operator(render())["spec"]["template"]["metadata"]["labels"]
    assert selector.pop(LABEL_LEADS) == "true" and LABEL_LEADS not in labels
    assert selector.items() <= labels.items()


@pytest.mark.parametrize("workload", [operator, agent])
def test_no_variable_is_given_twice(render: Render, workload: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> None:
    """Server-side apply refuses such a container; rendering and linting do not notice."""
    names = [item["name"] for item in only_container(workload(render()))["env"]]
    assert sorted(names) == sorted(set(names))


def test_operator_knows_its_pod_and_the_taints_that_it_may_pass_over(render: Render) -> None:
    """The pod's name is in the Lease; keys of taints are one list."""
    found = only_container(operator(render(**{"operator.toleratedTaints": "{dedicated,example.com/disk}"})))["env"]
    by_name = {item["name"]: item for item in found}
    assert by_name["COLOCATION_POD_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert by_name["COLOCATION_TOLERATED_TAINTS"]["value"] == "dedicated,example.com/disk"


def test_log_lines_have_one_format(render: Render) -> None:
    """Operator and agents alike."""
    objects = render(logFormat="json")
    for workload in (operator(objects), agent(objects)):
        assert variables(workload)["COLOCATION_LOG_FORMAT"] == "json"


def test_the_operator_leaves_a_lost_node_soon(render: Render) -> None:
    """Kubernetes' default is five minutes, in which no one would judge stability; the user's own tolerations stay."""
    objects = render(**{"operator.failoverSeconds": "7", "operator.tolerations[0].key": "dedicated"})
    tolerations = operator(objects)["spec"]["template"]["spec"]["tolerations"]
    assert {item["key"]: item.get("tolerationSeconds") for item in tolerations} == {
        "node.kubernetes.io/not-ready": 7, "node.kubernetes.io/unreachable": 7, "dedicated": None,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["operator", "agent"])
def test_containers_run_with_nothing_they_do_not_need(render: Render, name: str) -> None:
    """Not root, no capability, no privilege to gain, nothing of the image writable."""
    workload = {"operator": operator, "agent": agent}[name](render())
    pod, container = workload["spec"]["template"]["spec"], only_container(workload)
    context = {**pod["securityContext"], **container["securityContext"]}
    assert context["runAsNonRoot"] is True and context["runAsUser"] == 10440
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True


def test_the_data_root_is_given_to_the_agent_before_it_starts(render: Render) -> None:
    """The init container changes the owner of the root folder alone, with the two capabilities that this takes."""
    (container,) = agent(render(dataRoot="/disk"))["spec"]["template"]["spec"]["initContainers"]
    assert container["command"] == ["install", "-d", "-o", "10440", "-g", "10440", "-m", "0755", "/disk"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN", "FOWNER"]}


def test_a_label_that_helm_takes_for_a_boolean_is_a_text(render: Render) -> None:
    """`--set` makes one of `true`; only `--set-string` does not. Kubernetes' labels are texts."""
    pod = agent(render(**{r"agent.nodeSelector.colocation\.dev/data": "true"}))["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "colocation.dev/data": "true"}


def test_agents_run_on_every_chosen_node(render: Render) -> None:
    """Taints do not keep agents away; the node selector chooses."""
    pod = agent(render(**{"agent.nodeSelector.disk": "fast"}))["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "disk": "fast"}


def test_one_data_root_for_all(render: Render) -> None:
    """Agents mount it, the operator tells it to clone Jobs and to Spark."""
    objects = render(dataRoot="/disk/colocation")
    daemon = agent(objects)
    assert variables(daemon)["COLOCATION_DATA_ROOT"] == "/disk/colocation"
    assert variables(operator(objects))["COLOCATION_DATA_ROOT"] == "/disk/colocation"
    # A disk that is mounted on the node after the agent has started is seen, so that the agent restarts on it.
    mount = {"name": "data", "mountPath": "/disk/colocation", "mountPropagation": "HostToContainer"}
    assert mount in only_container(daemon)["volumeMounts"]
    assert {"name": "data", "hostPath": {"path": "/disk/colocation", "type": "DirectoryOrCreate"}} in daemon["spec"][
        "template"]["spec"]["volumes"]


def test_ports_and_probes_are_the_contracts(render: Render) -> None:
    """8440 for files, 8441 for health; the operator's probes are on its health port."""
    objects = render()
    ports = {item["name"]: item["containerPort"] for item in only_container(agent(objects))["ports"]}
    assert ports == {"https": AGENT_PORT, "health": AGENT_HEALTH_PORT}
    for workload in (agent(objects), operator(objects)):
        container = only_container(workload)
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


def agent_port(objects: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in only_container(agent(objects))["ports"] if item["name"] == "https")
    return found


def test_agents_are_reached_at_their_nodes(render: Render) -> None:
    """An address that outlives the pod, on a port that can be chosen, or none; two pods never need it at once."""
    objects = render()
    assert agent_port(objects)["hostPort"] == AGENT_PORT
    strategy = agent(objects)["spec"]["updateStrategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "34%", "maxSurge": 0}}
    assert agent_port(render(**{"agent.hostPort": 18440}))["hostPort"] == 18440
    assert "hostPort" not in agent_port(render(**{"agent.hostPort": "null"}))


def test_a_surge_needs_the_pods_own_addresses(render: Render) -> None:
    """Two pods of a node cannot share its port: such values are refused before anything waits for ever."""
    surge = {"agent.updateStrategy.rollingUpdate.maxSurge": 1, "agent.updateStrategy.rollingUpdate.maxUnavailable": 0}
    with pytest.raises(ChartRefused, match="maxSurge must be 0 while"):
        render(**surge)
    assert agent(render(**surge, **{"agent.hostPort": "null"}))["spec"]["updateStrategy"]["rollingUpdate"] == {
        "maxSurge": 1, "maxUnavailable": 0,
    }  # fmt: skip


@pytest.mark.parametrize("nodes", range(3, 12))
def test_a_rollout_passes_over_a_node_that_is_not_ready(render: Render, nodes: int) -> None:
    """The DaemonSet counts its pod as unavailable for good, so a rollout needs room for another one; rounded up."""
    percent = agent(render())["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"]
    max_unavailable = math.ceil(nodes * int(percent.removesuffix("%")) / 100)
    assert 1 < max_unavailable < nodes


def test_a_full_disk_or_memory_evicts_no_agent(render: Render) -> None:
    """The kubelet spares, and admits, the pods of the system's classes alone; a quota lets them into the namespace."""
    objects = render()
    name = agent(objects)["spec"]["template"]["spec"]["priorityClassName"]
    assert name == "system-node-critical"
    quota = one(objects, "ResourceQuota", "colocation-agent-priority")["spec"]
    assert quota["scopeSelector"]["matchExpressions"] == [
        {"scopeName": "PriorityClass", "operator": "In", "values": [name]},
    ]  # fmt: skip
    others = render(**{"agent.priorityClassName": "high"})
    assert agent(others)["spec"]["template"]["spec"]["priorityClassName"] == "high"
    assert not any(item["kind"] == "ResourceQuota" for item in others)


def test_agents_leave_the_kubelet_its_share_of_a_disk(render: Render) -> None:
    """An emptyDir is on the kubelet's disk: where the data root is on it, too, its share is not ours."""
    workload = agent(render())
    volume = variables(workload)["COLOCATION_KUBELET_VOLUME"]
    mounts = {item["mountPath"]: item["name"] for item in only_container(workload)["volumeMounts"]}
    volumes = {item["name"]: item for item in workload["spec"]["template"]["spec"]["volumes"]}
    assert volumes[mounts[str(volume)]] == {"name": mounts[str(volume)], "emptyDir": {}}
    highest_threshold = 0.15  # of the kubelet's defaults: imagefs.available
    assert float(str(variables(workload)["COLOCATION_KUBELET_RESERVE_FRACTION"])) >= highest_threshold


def test_cluster_autoscaler_lets_agents_serve_to_the_end(render: Render) -> None:
    """Users may say otherwise; other annotations stay."""
    note = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
    escaped = note.replace(".", r"\.")
    for value, given in (("false", {}), ("true", {f"agent.podAnnotations.{escaped}": '"true"'})):
        annotations = agent(render(**given))["spec"]["template"]["metadata"]["annotations"]
        assert annotations[note].strip('"') == value
        assert annotations["prometheus.io/scrape"] == "true"


def test_agents_end_within_their_time(render: Render) -> None:
    """Running requests end before the kubelet kills the process."""
    grace_seconds = agent(render())["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_seconds > Settings.shutdown_seconds + CLOSING_SECONDS


def test_the_operator_has_a_token_for_agents(render: Render) -> None:
    """A token of the agents' audience and their CA, at the paths of docs/reference/contracts.md."""
    workload = operator(render())
    volumes = {item["name"]: item for item in workload["spec"]["template"]["spec"]["volumes"]}
    token, certificate = volumes["access"]["projected"]["sources"]
    assert token["serviceAccountToken"]["audience"] == TOKEN_AUDIENCE
    assert certificate["configMap"]["name"] == "colocation-agent-ca"
    mounts = {item["name"]: item["mountPath"] for item in only_container(workload)["volumeMounts"]}
    assert mounts["access"] == TOKEN_DIRECTORY


def test_agents_are_marked_as_those_that_take_tokens_of_their_node(render: Render) -> None:
    """So the operator sends them no other; and they know which account is the clones'."""
    workload = agent(render())
    metadata = workload["spec"]["template"]["metadata"]
    known = parse_agent({"metadata": metadata, "spec": {"nodeName": "node-1"}})
    assert known is not None
    assert known.takes_node_tokens
    account = CloneJobSettings.model_fields["service_account"].default
    shown = variables(workload)["COLOCATION_CLONE_ACCOUNT"]
    assert shown == f"system:serviceaccount:colocation-system:{account}"


@pytest.mark.parametrize(
    ("value", "given", "variable", "expected"),
    [
        ("disableColocateRelocate", "true", "COLOCATION_DISABLE_COLOCATE_RELOCATE", "true"),
        ("disableColocateBalance", "true", "COLOCATION_DISABLE_COLOCATE_BALANCE", "true"),
        ("limits.maxConcurrentClonesPerNode", "5", "COLOCATION_MAX_CONCURRENT_CLONES_PER_NODE", "5"),
        ("limits.diskHeadroomFraction", "0.25", "COLOCATION_DISK_HEADROOM_FRACTION", "0.25"),
        ("limits.cloneBandwidth.perNodeMiBPerSecond", "null", "COLOCATION_CLONE_MIB_PER_SECOND_PER_NODE", ""),
        ("limits.cloneBandwidth.perNodeMiBPerSecond", "9000000", "COLOCATION_CLONE_MIB_PER_SECOND_PER_NODE", "9000000"),
        ("limits.cloneBandwidth.perClusterMiBPerSecond", "5", "COLOCATION_CLONE_MIB_PER_SECOND_PER_CLUSTER", "5"),
        ("limits.maxUnexplainedFolders", "9000000", "COLOCATION_MAX_UNEXPLAINED_FOLDERS", "9000000"),
        ("limits.cloneDeadlineSeconds", "60", "COLOCATION_CLONE_DEADLINE_SECONDS", "60"),
        ("limits.cloneMaxSeconds", "60", "COLOCATION_CLONE_MAX_SECONDS", "60"),
        ("limits.cloneMaxSeconds", "null", "COLOCATION_CLONE_MAX_SECONDS", ""),
        ("limits.cloneResources.limits.memory", "1Gi", "COLOCATION_CLONE_RESOURCES",
         '{"limits":{"memory":"1Gi"},"requests":{"cpu":"100m","memory":"128Mi"}}'),
        ("operator.agentGraceSeconds", "3", "COLOCATION_AGENT_GRACE_SECONDS", "3"),
        ("operator.inventorySeconds", "2", "COLOCATION_INVENTORY_SECONDS", "2"),
        ("operator.resyncSeconds", "86400000", "COLOCATION_RESYNC_SECONDS", "86400000"),
        ("operator.collectSeconds", "60", "COLOCATION_COLLECT_SECONDS", "60"),
        ("operator.garbageGraceSeconds", "60", "COLOCATION_GARBAGE_GRACE_SECONDS", "60"),
        ("operator.logLevel", "DEBUG", "COLOCATION_LOG_LEVEL", "DEBUG"),
        ("runAsUser", "1000", "COLOCATION_CLONE_USER_ID", "1000"),
        ("spark.image", "example/spark:1", "COLOCATION_SPARK_IMAGE", "example/spark:1"),
        ("spark.digest", DIGEST, "COLOCATION_SPARK_IMAGE", f"colocation-spark@{DIGEST}"),
        ("image.tag", "dev", "COLOCATION_IMAGE", "colocation-operator:dev"),
        ("image.digest", DIGEST, "COLOCATION_IMAGE", f"colocation-operator@{DIGEST}"),
        ("imagePullSecrets[0].name", "registry", "COLOCATION_IMAGE_PULL_SECRETS", "registry"),
    ],
)
def test_values_reach_the_operator(render: Render, value: str, given: str, variable: str, expected: str) -> None:
    """Each setting is one variable, and numbers keep their digits."""
    assert variables(operator(render(**{value: given})))[variable] == expected


@pytest.mark.parametrize("image", ["r.example:5000/spark:1", "r.example:5000/spark", f"r.example:5000/spark@{DIGEST}"])
def test_a_digest_stands_in_place_of_the_tag(render: Render, image: str) -> None:
    """A registry's port is no tag."""
    found = variables(operator(render(**{"spark.image": image, "spark.digest": DIGEST})))
    assert found["COLOCATION_SPARK_IMAGE"] == f"r.example:5000/spark@{DIGEST}"


@pytest.mark.parametrize(
    ("value", "given", "variable"),
    [
        ("agent.sweepIntervalSeconds", "5", "COLOCATION_SWEEP_INTERVAL_SECONDS"),
        ("agent.scrub.intervalSeconds", "86400000", "COLOCATION_SCRUB_INTERVAL_SECONDS"),
        ("agent.scrub.mibPerSecond", "2.5", "COLOCATION_SCRUB_MIB_PER_SECOND"),
        ("agent.diskHeadroomFraction", "0.2", "COLOCATION_DISK_HEADROOM_FRACTION"),
        ("agent.kubeletReserveFraction", "0.1", "COLOCATION_KUBELET_RESERVE_FRACTION"),
        ("limits.cloneBandwidth.perNodeMiBPerSecond", "250", "COLOCATION_CLONE_MIB_PER_SECOND"),
        ("agent.maxRequests.total", "4096", "COLOCATION_MAX_REQUESTS"),
        ("agent.maxRequests.perAddress", "1024", "COLOCATION_MAX_REQUESTS_PER_ADDRESS"),
    ],
)
def test_values_reach_the_agents(render: Render, value: str, given: str, variable: str) -> None:
    """Each setting is one variable, and numbers keep their digits."""
    assert variables(agent(render(**{value: given})))[variable] == given


@pytest.mark.parametrize(("workload", "package"), [("operator", "controller"), ("agent", "agent")])
def test_the_programs_know_every_variable_that_they_are_given(render: Render, workload: str, package: str) -> None:
    """A variable that a program does not read would be a value without effect."""
    given = variables({"operator": operator, "agent": agent}[workload](render()))
    source = (REPOSITORY / "operator" / "colocation" / package / "settings.py").read_text()
    words = set(re.findall(r"[a-z_]+", source.lower().replace("-", "_")))
    unknown = [name for name in given if name.removeprefix("COLOCATION_").lower() not in words]
    assert unknown == []
