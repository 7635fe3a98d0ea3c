"""The operator's Deployment and the agents' DaemonSet as the chart renders them."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colocation.agent.server import CLOSING_SECONDS
from colocation.agent.settings import Settings
from colocation.manifests.clone_job import CloneJobSettings
from colocation.model.names import AGENT_HEALTH_PORT, AGENT_PORT, TOKEN_AUDIENCE, TOKEN_DIRECTORY
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


def test_upgrade_ends_the_old_operator_first(render: Render) -> None:
    """One that waits for the Lease is not ready; a rolling update would wait for it without end."""
    assert operator(render())["spec"]["replicas"] == 1
    spec = operator(render(**{"operator.replicas": 2}))["spec"]
    assert (spec["replicas"], spec["strategy"]) == (2, {"type": "Recreate"})


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
    """Kubernetes' default is five minutes, in which nobody would judge stability; the user's own tolerations stay."""
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
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
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


def test_nobody_evicts_agents_that_are_well(render: Render) -> None:
    """A budget by number, as a DaemonSet has no scale; sick agents may be evicted; it can be left out."""
    objects = render()
    budget = one(objects, "PodDisruptionBudget", "colocation-agent")["spec"]
    assert budget["selector"] == agent(objects)["spec"]["selector"]
    assert (budget["minAvailable"], budget["unhealthyPodEvictionPolicy"]) == (1_000_000, "AlwaysAllow")
    without = render(**{"agent.podDisruptionBudget.enabled": "false"})
    assert not any(item["kind"] == "PodDisruptionBudget" for item in without)


def test_agents_end_within_their_time(render: Render) -> None:
    """Running requests end before the kubelet kills the process."""
    grace_seconds = agent(render())["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace_seconds > Settings.shutdown_seconds + CLOSING_SECONDS


def test_the_operator_has_a_token_for_agents(render: Render) -> None:
    """A token of the agents' audience and their CA, where ARCHITECTURE.md says."""
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
    told = variables(workload)["COLOCATION_CLONE_ACCOUNT"]
    assert told == f"system:serviceaccount:colocation-system:{account}"


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
