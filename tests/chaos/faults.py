"""Makes and heals each fault of the table on the dev cluster. None takes the last whole copy of a committed file.

A fault that cannot be made now (no clone runs, no file has another copy) is left out, and the history reports it.
"""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

from colocation.model.names import LABEL_WEIGHT
from demo import cluster
from demo.shell import CommandFailed, kubectl
from devcluster import cgroups, clocks, network
from devcluster import cluster as devcluster
from devcluster import node as nodes
from devcluster.errors import DevclusterError

from . import cluster_view, scene
from .control_plane_faults import ControlPlaneFaults
from .disk_faults import DiskFaults
from .disks import Disks
from .drain_faults import DrainFaults
from .fault_kinds import BY_NAME, CONTROL_PLANE
from .history import FAIL, OK, History
from .plan import Step
from .targets import FAILURES, CannotNow, HalfMade, Heal, any_node, healed_by, start
from .violations import HEAL

HEAL_SECONDS, HEAL_AGAIN_SECONDS = 240.0, 2.0
"""So long, and so often, a fault is tried to be healed; anyone who asked for it does it once more later."""
MOST_NODES = 4
SLOW = "8mbit"
CLONE_PODS = "batch.kubernetes.io/job-name"
CLONE_SECONDS = 45.0
"""So long a clone is waited for."""
LEAST_WEIGHT = 1
"""Of a node: the others weigh as many as their disks have GiB."""
LEAST_STEP_SECONDS = 60
MOST_AHEAD_SECONDS = 1200
"""Of a stepped clock. An agent refuses a token that ended ten minutes ago by its node's clock, and a pod's token of an
hour has twelve minutes left when the kubelet renews it."""
MOST_BEHIND_SECONDS = 1800
"""Certificates are valid from an hour before they were signed; but see ``authority_age_seconds`` for their CA."""


@dataclass
class InForce:
    """A fault that was made, or half made, and is not healed. ``number``: of its operation in the history; ``lock``:
    one thread heals it.
    """

    number: int
    name: str
    heal: Heal
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Faults:
    """``values``: of the chart. A method of a fault's name makes it and returns what heals it, if anything does.

    ``_healing``: by the plan's numbers.
    """

    history: History
    disks: Disks
    values: dict[str, str] = field(default_factory=dict)
    _healing: dict[int, InForce] = field(default_factory=dict)
    _tag: str = scene.OTHER_TAG

    def __post_init__(self) -> None:
        self.control_plane = ControlPlaneFaults(self.history)
        self._makers = (DiskFaults(self.disks), self.control_plane, DrainFaults(self.history))

    def make(self, step: Step) -> None:
        """Let it go wrong. What fails when it was begun is noted as made: it is in force until it is healed."""
        number = self.history.invoke("faults", step.name, plan=step.number)
        try:
            said, heal = self._action(step.name)(Random(f"fault {step.number} {step.die}"))
        except HalfMade as half:
            said, heal = str(half), half.heal
        except CannotNow as error:
            self.history.note("faults", FAIL, step.name, number, why=str(error)[:500], untouched=True)
            return
        except FAILURES as error:
            self.history.note("faults", FAIL, step.name, number, why=str(error)[:500])
            return
        if heal:
            self._healing[step.number] = InForce(number, step.name, heal)
        self.history.note("faults", OK, step.name, number, what=said, holds=heal is not None)

    def heal(self, plan_number: int) -> bool:
        """Put one right again, if it was made; tries until it is, or for ``HEAL_SECONDS``. May be called again.

        Whether there is nothing left to do.
        """
        with suppress(*FAILURES):
            self._put_right(plan_number)
            return True
        return False

    def _put_right(self, plan_number: int) -> None:
        """As ``heal``, but raises its last error."""
        fault = self._healing.get(plan_number)
        if fault is None:
            return
        with fault.lock:
            if plan_number not in self._healing:  # another thread was faster
                return
            healing = self.history.invoke("faults", HEAL, fault=fault.number, name=fault.name)
            try:
                insist(fault.heal)
            except FAILURES as error:
                why = str(error)[:500]
                self.history.note("faults", FAIL, HEAL, healing, fault=fault.number, name=fault.name, why=why)
                raise
            del self._healing[plan_number]
            self.history.note("faults", OK, HEAL, healing, fault=fault.number, name=fault.name)

    def heal_all(self) -> None:
        """Everything, the control plane first: the rest needs it. Each step is tried, whatever came of the others.

        Raises:
            DevclusterError: some failed; the message names them.
        """
        failed: list[str] = []
        last: Exception | None = None
        for what, action in self._steps_to_heal():
            try:
                action()
            except FAILURES as error:
                failed.append(f"{what}: {str(error)[:500]}")
                last = error
        if failed:
            raise DevclusterError(f"not healed: {'; '.join(failed)}") from last

    def _steps_to_heal(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """(What, how). A node can only get Ready when it is connected, so that comes before faults are healed."""
        yield "control plane", self.control_plane.start
        for member in nodes.known():
            yield f"link of {member.name}", partial(self._reconnect, member.number)
        faults = list(self._healing.items())
        for number, fault in sorted(faults, key=lambda one: BY_NAME[one[1].name].one_of != CONTROL_PLANE):
            yield fault.name, partial(self._put_right, number)
        for member in nodes.known():
            if not nodes.is_complete(member):
                yield member.name, partial(start, member)
        yield "images", scene.tag_images

    def _action(self, name: str) -> Callable[[Random], tuple[str, Heal | None]]:
        method = name.replace("-", "_")
        places = [(maker, method) for maker in self._makers] + [(self, f"_{method}")]
        found: Callable[[Random], tuple[str, Heal | None]]
        found = next(getattr(maker, known) for maker, known in places if hasattr(maker, known))
        return found

    # Nodes and networks

    def _node_killed(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        heal = partial(start, member)
        with healed_by(heal, member.name):
            devcluster.kill_node(member.number)
        return member.name, heal

    def _node_deleted(self, random: Random) -> tuple[str, Heal]:
        """Killed only, while the API server is away: that has to be healed all the same."""
        name, heal = self._node_killed(random)
        try:
            kubectl("delete", "node", name, "--wait=false", "--request-timeout=20s")
        except (CommandFailed, subprocess.SubprocessError) as error:
            return f"{name}, killed only: {str(error)[-300:]}", heal
        return name, heal

    def _node_added(self, random: Random) -> tuple[str, None]:
        if len(nodes.known()) >= MOST_NODES:
            raise CannotNow(f"there are {MOST_NODES} nodes")
        before = nodes.known()

        def heal() -> None:
            for added in nodes.known():
                if added not in before:
                    start(added)

        with healed_by(heal, "a node more"):
            member = devcluster.add_node()
            scene.tag_images()
        return member.name, None

    def _partition(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)

        def heal() -> None:
            if nodes.holder_pid(member) is not None:  # one that is started again has a new link
                network.set_link_up(member.number, True)
                network.route_pods(devcluster.running_nodes())

        with healed_by(heal, member.name):
            devcluster.set_partitioned(member.number, True)
            if network.link_is_up(member.number):
                raise DevclusterError("the link is up all the same")
        return member.name, heal

    def _partition_one_way(self, random: Random) -> tuple[str, Heal]:
        member, way = any_node(random), random.choice(list(network.OneWay))

        def heal() -> None:
            if (pid := nodes.holder_pid(member)) is not None:
                network.set_one_way(pid, None)

        with healed_by(heal, member.name):
            network.set_one_way(nodes.require_running(member), way)
        return f"{member.name} is {way}", heal

    def _slow_link(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)

        def heal() -> None:
            if (pid := nodes.holder_pid(member)) is not None:
                network.shape_link(member.number, pid, None)

        with healed_by(heal, member.name):
            network.shape_link(member.number, nodes.require_running(member), SLOW)
        return member.name, heal

    def _reconnect(self, number: int) -> None:
        """Whatever a node's link suffers from."""
        pid = nodes.holder_pid(nodes.Node(number))
        if pid is not None:
            network.set_link_up(number, True)
            network.set_one_way(pid, None)
            network.shape_link(number, pid, None)
            network.route_pods(devcluster.running_nodes())

    # Pods

    def _delete_pod(self, random: Random, namespace: str, selector: str, grace_seconds: int = 0) -> tuple[str, None]:
        pods = cluster_view.get("pods", "-n", namespace, "-l", selector)
        names = sorted(pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") in ("Running", "Pending"))
        if not names:
            raise CannotNow(f"no pod {selector}")
        name = random.choice(names)
        force = [] if grace_seconds else ["--force"]
        kubectl("delete", "pod", name, "-n", namespace, f"--grace-period={grace_seconds}", *force, "--wait=false",
                "--request-timeout=20s")  # fmt: skip
        return name, None

    def _agent_killed(self, random: Random) -> tuple[str, None]:
        return self._delete_pod(random, cluster.OPERATOR_NAMESPACE, "app.kubernetes.io/component=agent")

    def _operator_killed(self, random: Random) -> tuple[str, None]:
        return self._delete_pod(random, cluster.OPERATOR_NAMESPACE, "app.kubernetes.io/component=operator")

    def _driver_killed(self, random: Random) -> tuple[str, None]:
        return self._delete_pod(random, scene.NAMESPACE, "chaos=session", grace_seconds=1)

    def _executor_killed(self, random: Random) -> tuple[str, None]:
        return self._delete_pod(random, scene.NAMESPACE, "spark-role=executor")

    def _clone_killed(self, random: Random) -> tuple[str, Heal]:
        """Clones are rare and short: a node that is to hold next to nothing gives its replicas to others by some. The
        node has its weight again once that is healed, also when no clone was met.
        """
        label, member = LABEL_WEIGHT, any_node(random)

        def heal() -> None:
            kubectl("label", "node", member.name, f"{label}-", "--request-timeout=20s")

        with healed_by(heal, member.name):
            kubectl("label", "node", member.name, f"{label}={LEAST_WEIGHT}", "--overwrite", "--request-timeout=20s")
        return self._delete_clone(random) or f"none of {member.name}'s replicas was cloned", heal

    def _delete_clone(self, random: Random) -> str:
        """The clone's pod that was deleted; empty when none was met in ``CLONE_SECONDS``."""
        deadline = time.monotonic() + CLONE_SECONDS
        while time.monotonic() < deadline:
            with suppress(CannotNow, *FAILURES):
                return self._delete_pod(random, cluster.OPERATOR_NAMESPACE, CLONE_PODS)[0]
            time.sleep(0.2)
        return ""

    def _upgrade(self, _: Random) -> tuple[str, None]:
        """To the tag that does not run: after a failure that is the same one."""
        own, tag = cluster.OPERATOR_IMAGE.rpartition(":")[2], self._tag
        cluster.install_colocation({**scene.VALUES, **self.values, "image.tag": tag})
        self._tag = own if tag == scene.OTHER_TAG else scene.OTHER_TAG
        return tag, None

    # Clocks and images

    def _clock_stepped(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        if not any(clocks.is_followed_by(pid) for pid in cgroups.processes(member.group)):
            raise CannotNow(f"no process on {member.name} follows a clock of the node's own")
        ahead_seconds = clock_step(random, cluster_view.authority_age_seconds())
        clocks.step(member.folder, ahead_seconds)
        return f"{member.name}: {ahead_seconds:+d} s", lambda: clocks.step(member.folder, 0)

    def _image_missing(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        repository, _, tag = cluster.OPERATOR_IMAGE.rpartition(":")
        names, kept = [f"{repository}:{tag}", f"{repository}:{scene.OTHER_TAG}"], f"{repository}-kept:{tag}"

        def heal() -> None:
            for name in names if nodes.holder_pid(member) else ():
                scene.ctr(member, "images", "tag", "--force", kept, name)

        scene.ctr(member, "images", "tag", "--force", names[0], kept)
        with healed_by(heal, member.name):
            for name in names:
                scene.ctr(member, "images", "rm", name)
        return member.name, heal


def insist(action: Heal) -> None:
    """Do it until it succeeds.

    Raises:
        one of ``FAILURES``: it did not in ``HEAL_SECONDS``.
    """
    deadline = time.monotonic() + HEAL_SECONDS
    while True:
        try:
            action()
            return
        except FAILURES:
            if time.monotonic() > deadline:
                raise
        time.sleep(HEAL_AGAIN_SECONDS)


def clock_step(random: Random, authority_age_seconds: float) -> int:
    """By how many seconds a clock is stepped: ahead, or behind to a time at which the agents' CA is valid.

    Raises:
        CannotNow: it should be behind, and the CA is too young.
    """
    if random.random() < 0.5:
        return random.randint(LEAST_STEP_SECONDS, MOST_AHEAD_SECONDS)
    most_seconds = min(MOST_BEHIND_SECONDS, int(authority_age_seconds))
    if most_seconds < LEAST_STEP_SECONDS:
        raise CannotNow(f"the agents' CA is {authority_age_seconds:.0f} s old, and not valid before")
    return -random.randint(LEAST_STEP_SECONDS, most_seconds)
