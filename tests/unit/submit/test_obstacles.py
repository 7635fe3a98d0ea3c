"""What keeps an application from running: said, and given up within a bound."""

from typing import Any

import pytest

from colocation.submit.run import NO_ROOM_SECONDS, STUCK_SECONDS, Progress, Stuck, watch
from colocation.submit.status import (
    MAX_REASON_CHARACTERS,
    ApplicationStatus,
    Obstacle,
    find_obstacle,
    obstacle,
    refused_executors,
)

from .fake_applications import FakeApplications, Step, VirtualTime


def pod(role: str, phase: str = "Pending", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": role, "labels": {"spark-role": role}}, "status": {"phase": phase, **status}}


def waiting(reason: str, message: str = "", where: str = "containerStatuses") -> dict[str, Any]:
    return {where: [{"state": {"waiting": {"reason": reason, "message": message}}}]}


def unscheduled(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]}


RUNS = pod("driver", "Running")


@pytest.mark.parametrize(
    ("status", "refusal", "lasts", "message", "advice"),
    [
        pytest.param(waiting("CreateContainerConfigError", 'secret "lake" not found'), "", True,
                     'CreateContainerConfigError: secret "lake" not found', "create secret generic lake -n shop",
                     id="no Secret"),
        pytest.param(waiting("CreateContainerConfigError", 'configmap "site" not found'), "", True,
                     'configmap "site" not found', "create it in shop", id="no ConfigMap"),
        pytest.param({}, 'FailedMount: configmap "spark-exec-231b-conf-map" not found', False, "FailedMount",
                     "Spark makes it", id="Spark's own ConfigMap"),
        pytest.param(waiting("CreateContainerConfigError", "couldn't find key password in Secret shop/lake"), "", True,
                     "couldn't find key", "add the key", id="no key"),
        pytest.param(waiting("ErrImagePull", "not found"), "", True, "ErrImagePull: not found", "--image", id="image"),
        pytest.param(waiting("ImagePullBackOff"), "", True, "ImagePullBackOff", "--image", id="image, later"),
        pytest.param(waiting("InvalidImageName", "a b"), "", True, "InvalidImageName", "--image", id="image's name"),
        pytest.param(waiting("CreateContainerConfigError", "container has runAsNonRoot and image has non-numeric user "
                     "(spark), cannot verify user is non-root"), "", True, "non-numeric user (spark)", "USER 185",
                     id="image's user by name"),
        pytest.param(waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
                     "", True, "will run as root", "runAsUser", id="image's user is root"),
        pytest.param(waiting("CrashLoopBackOff", "back-off", "initContainerStatuses"), "", True, "CrashLoopBackOff",
                     "", id="a container that prepares the pod"),
        pytest.param(unscheduled("0/3 nodes are available: 3 Insufficient memory."), "", False,
                     "Unschedulable: 0/3 nodes are available: 3 Insufficient memory.", "--timeout", id="no room"),
        pytest.param(unscheduled('persistentvolumeclaim "notes" not found'), "", True, "notes",
                     "create the claim in shop", id="no claim"),
        pytest.param({}, 'FailedMount: MountVolume.SetUp failed: secret "lake" not found', True, "FailedMount",
                     "create secret generic lake", id="a volume of a missing Secret"),
        pytest.param(None, 'error looking up service account shop/spark: serviceaccount "spark" not found', True,
                     "serviceaccount", "colocation init -n shop --service-account spark", id="no ServiceAccount"),
        pytest.param(None, 'pods "x" is forbidden: exceeded quota: small', False, "exceeded quota",
                     "kubectl describe quota -n shop", id="quota"),
        pytest.param(None, 'admission webhook "rules" denied the request: no', True, "denied the request: no",
                     "who made the rule", id="webhook"),
        pytest.param(None, 'pods "x" is forbidden: violates PodSecurity', True, "PodSecurity", "--application",
                     id="Pod Security"),
    ],
)  # fmt: skip
def test_what_keeps_the_driver_from_running(
    status: dict[str, Any] | None, refusal: str, lasts: bool, message: str, advice: str
) -> None:
    """The cluster's words, whether waiting may help, and what to do."""
    pods = [] if status is None else [pod("driver", **status)]
    found = find_obstacle(pods, refusal, "shop")
    assert found and message in found.message and advice in found.advice
    assert (found.is_lasting, found.is_partial) == (lasts, False)


def test_the_usual_wait_for_the_config_of_spark_is_not_shown() -> None:
    """Kubernetes warns of it in the first seconds of a run that goes well; only a long wait is worth a line."""
    starting = ApplicationStatus(state="Running", phase="running", has_executors=True)
    usual = obstacle('FailedMount: MountVolume.SetUp failed: configmap "spark-exec-231b-conf-map" not found', "shop")
    waiting_now = starting.with_obstacle(usual)
    assert (waiting_now.state, waiting_now.obstacle) == ("Running", usual)
    other = obstacle('FailedMount: MountVolume.SetUp failed: configmap "site" not found', "shop")
    assert "create it in shop" in starting.with_obstacle(other).state


def test_what_the_scheduler_adds_about_preemption_is_left_out() -> None:
    """It is longer than the reason, and no one can do anything about it."""
    reason, preemption = "0/4 nodes are available: 3 Insufficient cpu.", "preemption: 0/4 nodes are available: 4 No."
    for addition in (f" {preemption}", f" no new claims to deallocate, {preemption}"):
        found = find_obstacle([pod("driver", **unscheduled(f"{reason}{addition}"))])
        assert found and found.message == f"Unschedulable: {reason}"


@pytest.mark.parametrize("pods", [
    pytest.param([], id="no pod yet"),
    pytest.param([pod("driver")], id="pending"),
    pytest.param([pod("driver", **waiting("ContainerCreating"))], id="starts"),
    pytest.param([RUNS], id="runs"),
    pytest.param([RUNS, pod("executor", **waiting("PodInitializing"))], id="its executor starts"),
])  # fmt: skip
def test_pods_that_start_are_no_obstacle(pods: list[dict[str, Any]]) -> None:
    """Nothing is said of what is ordinary."""
    assert find_obstacle(pods) is None


def test_a_driver_on_a_lost_node_is_named() -> None:
    """Its pod stays `Running` for five minutes; its containers are ready in the kubelet's last report."""
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    lost = {**pod("driver", "Running", conditions=conditions), "spec": {"nodeName": "node-1"}}
    found = find_obstacle([lost, pod("executor", "Running")])
    assert found and found.message == (
        "the driver's node node-1 is not ready; unless it comes back, by default Kubernetes ends the driver after five "
        "minutes"
    )
    assert not found.is_lasting and not found.is_partial
    conditions[1]["status"] = "False"
    assert find_obstacle([lost]) is None  # a container that ends, or a probe of the user's


def test_a_driver_that_a_lost_node_cannot_end_is_no_wait() -> None:
    """After five minutes Kubernetes deletes it, and its pod stays as long as the node is away, with its executors."""
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    given_up = {**pod("driver", "Running", conditions=conditions), "spec": {"nodeName": "node-1"}}
    given_up["metadata"] = {**given_up["metadata"], "deletionTimestamp": "2026-11-30T09:41:20Z"}
    name = given_up["metadata"]["name"]
    found = find_obstacle([given_up, pod("executor", "Running")], namespace="shop")
    assert found and found.is_lasting and not found.is_partial
    assert found.message == f"the driver's node node-1 is not ready, and Kubernetes has given up the driver {name}"
    assert "run it again" in found.advice and "colocation tables -n shop" in found.advice
    assert f"kubectl delete pod {name} -n shop --force" in found.advice


def test_an_application_goes_on_with_some_of_its_executors() -> None:
    """Why the others do not run is shown; the application is not given up for it."""
    stuck = pod("executor", **waiting("ErrImagePull"))
    alone, partial = (find_obstacle([RUNS, *others, stuck]) for others in ([], [pod("executor", "Running")]))
    assert alone and partial and alone.message == partial.message == "an executor: ErrImagePull"
    assert (alone.is_partial, partial.is_partial) == (False, True)


def test_executors_that_are_refused_are_found_in_the_drivers_log() -> None:
    """Spark keeps asking, and only its log has the reason."""
    said = 'pods "load-1-exec-7" is forbidden: exceeded quota: small, requested: pods=1'
    log = f"ERROR ExecutorPodsAllocator\nFailure executing: POST. Message: {said}. Received status: Status(...)\n\tat x"
    assert refused_executors(log) == f"no executor is made: {said}"
    assert not obstacle(refused_executors(log)).is_lasting
    assert refused_executors("INFO all is well") == ""
    assert len(refused_executors(f'pods "a" is forbidden: {"x" * 999}')) <= MAX_REASON_CHARACTERS


def status(message: str = "", **changes: Any) -> ApplicationStatus:
    found = ApplicationStatus(state="Pending", phase="running", has_executors=True)
    return found.with_obstacle(obstacle(message).model_copy(update=changes) if message else None)


def wait(steps: list[Step], timeout_seconds: float | None = None, log: str = "") -> tuple[VirtualTime, list[Progress]]:
    applications, time, seen = FakeApplications(steps, log=log), VirtualTime(), list[Progress]()
    applications.objects["load"] = {}
    for step in watch(applications, "shop", "load", timeout_seconds=timeout_seconds, clock=time.clock,
                      sleep=time.sleep):  # fmt: skip
        seen.append(step)
    return time, seen


ENDED = ApplicationStatus(state="Succeeded", phase="succeeded")
MISSING, NO_ROOM = status('secret "lake" not found'), status("Unschedulable: no memory")


@pytest.mark.parametrize(("stuck", "seconds"), [
    pytest.param(MISSING, STUCK_SECONDS, id="a missing object"), pytest.param(NO_ROOM, NO_ROOM_SECONDS, id="no room"),
])  # fmt: skip
def test_the_wait_ends_at_what_does_not_pass(stuck: ApplicationStatus, seconds: float) -> None:
    """With the reason and what to do; before, the reason is shown, and what to do about one that does not pass."""
    assert stuck.obstacle
    with pytest.raises(Stuck) as given_up:
        wait([stuck])
    assert stuck.obstacle.message in str(given_up.value) and stuck.obstacle.advice in str(given_up.value)
    _, seen = wait([*[stuck] * int(seconds), ENDED])
    advice = f"; {stuck.obstacle.advice}" * stuck.obstacle.is_lasting
    assert seen[0].state == f"Pending ({stuck.obstacle.message}{advice})"


@pytest.mark.parametrize(("stuck", "timeout_seconds"), [
    pytest.param(status("ErrImagePull", is_partial=True), None, id="other executors run"),
    pytest.param(NO_ROOM, 10.0 * NO_ROOM_SECONDS, id="the caller allows more"),
])  # fmt: skip
def test_the_wait_goes_on(stuck: ApplicationStatus, timeout_seconds: float | None) -> None:
    """Longer than is allowed without --timeout."""
    time, seen = wait([*[stuck] * (2 * NO_ROOM_SECONDS), ENDED], timeout_seconds)
    assert seen[-1].end and time.now >= 2 * NO_ROOM_SECONDS


def gated_executor(*others: dict[str, Any]) -> ApplicationStatus:
    """Its executors wait for a controller that removes their scheduling gates."""
    gated = pod("executor", **unscheduled("Scheduling is blocked due to non-empty scheduling gates", "SchedulingGated"))
    return ApplicationStatus(state="Running", phase="running", has_executors=True).with_obstacle(
        find_obstacle([RUNS, *others, gated])
    )


HELD = ApplicationStatus(state="SUSPENDED", phase="running").with_obstacle(
    Obstacle(message="held back by Kueue in queue shop: no quota", is_lasting=False, is_queued=True)
)


@pytest.mark.parametrize(("held", "state"), [
    pytest.param(HELD, "SUSPENDED (held back by Kueue in queue shop: no quota)", id="the application"),
    pytest.param(gated_executor(), "Running (an executor: SchedulingGated: Scheduling is blocked due to non-empty "
                 "scheduling gates)", id="its executors"),
])  # fmt: skip
def test_a_queue_may_hold_back_for_hours(held: ApplicationStatus, state: str) -> None:
    """It is no fault; once it ends, the limits of what else may be in the way count from then."""
    hours = [held] * 4 * 3600
    time, seen = wait([*hours, *[NO_ROOM] * NO_ROOM_SECONDS, ENDED])
    assert seen[0].state == state and seen[-1].end and time.now > len(hours)
    with pytest.raises(Stuck, match=r"does not run since 6\d\d s: Unschedulable: no memory"):
        wait([*hours, NO_ROOM])


def test_an_obstacle_that_went_is_forgotten() -> None:
    """Time counts from when it came again."""
    most = [MISSING] * STUCK_SECONDS
    _, seen = wait([*most, status(), *most, ENDED])
    assert seen[-1].end


def test_a_driver_without_executors_is_given_up_when_they_are_refused() -> None:
    """Of quotas, Spark's log alone speaks."""
    alone = ApplicationStatus(state="Running", phase="running", driver_pod="load-driver")
    log = 'pods "load-exec-1" is forbidden: error looking up service account shop/x: serviceaccount "x" not found'
    with pytest.raises(Stuck, match=r"no executor is made: .*serviceaccount"):
        wait([alone], log=log)
