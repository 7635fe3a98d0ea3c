"""Makes and heals each fault of the table on the dev cluster. None takes the last whole copy of a committed file.

A fault that cannot be made now (no clone runs, no file has another copy) is left out, and the history says so.
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
from devcluster import cgroups, clocks, controlplane, network, paths, processes
from devcluster import cluster as devcluster
from devcluster import node as nodes
from devcluster.errors import DevclusterError

from . import cluster_view, scene
from .disk_faults import DiskFaults
from .disks import Disks
from .fault_kinds import BY_NAME, CONTROL_PLANE
from .history import FAIL, OK, SEEN, History
from .plan import Step
from .targets import FAILURES, CannotNow, HalfMade, Heal, any_node, healed_by, is_registered, start
from .violations import HEAL

HEAL_SECONDS, HEAL_AGAIN_SECONDS = 240.0, 2.0
"""So long, and so often, a fault is tried to be healed; ``heal_all`` does it once more."""
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
ETCD_COPY = paths.STATE / "etcd-copy"
SAVE = "save-etcd"


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

    ``_healing``: by the plan's numbers. ``_control_plane``: held while programs of the control plane are ended, started
    or copied, not for the time that a fault holds.
    """

    history: History
    disks: Disks
    values: dict[str, str] = field(default_factory=dict)
    session_pod: Callable[[], str] = lambda: ""
    _healing: dict[int, InForce] = field(default_factory=dict)
    _control_plane: threading.RLock = field(default_factory=threading.RLock)
    _tag: str = scene.OTHER_TAG

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

    def heal(self, plan_number: int) -> None:
        """Put one right again, if it was made; tries until it is, or for ``HEAL_SECONDS``. May be called again."""
        with suppress(*FAILURES):
            self._put_right(plan_number)

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
        yield "control plane", self._start_control_plane
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
        found: Callable[[Random], tuple[str, Heal | None]]
        found = getattr(DiskFaults(self.disks), method, None) or getattr(self, f"_{method}")
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
        member = any_node(random)

        def heal() -> None:
            if (pid := nodes.holder_pid(member)) is not None:
                network.set_deaf(pid, False)

        with healed_by(heal, member.name):
            network.set_deaf(nodes.require_running(member), True)
        return member.name, heal

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
            network.set_deaf(pid, False)
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

    # Control plane

    def _api_server_stopped(self, _: Random) -> tuple[str, Heal]:
        return "", self._kill("kube-apiserver")

    def _watches_cut(self, _: Random) -> tuple[str, None]:
        with self._control_plane:
            heal = self._kill("kube-apiserver")
            with healed_by(heal, "kube-apiserver"):
                heal()
        return "", None

    def _etcd_stopped(self, _: Random) -> tuple[str, Heal]:
        return "", self._kill("etcd")

    def _kill(self, program: str) -> Heal:
        with self._control_plane:
            if not processes.running(program):
                raise CannotNow(f"{program} does not run")
            with healed_by(self._start_control_plane, program):
                controlplane.kill(program)
        return self._start_control_plane

    def _start_control_plane(self) -> None:
        """Start what does not run.

        Raises:
            DevclusterError: the API server does not serve in time.
        """
        with self._control_plane:
            controlplane.start_all_again()
            if not controlplane.api_is_ready():
                raise DevclusterError("the API server does not serve")

    def save_etcd(self) -> None:
        """Take the copy that ``etcd-restored`` brings back."""
        number = self.history.invoke("faults", SAVE)
        try:
            with self._control_plane:
                controlplane.copy_etcd(ETCD_COPY)
        except (DevclusterError, OSError) as error:
            self.history.note("faults", FAIL, SAVE, number, why=str(error)[:500])
            return
        self.history.note("faults", OK, SAVE, number)

    def _etcd_restored(self, _: Random) -> tuple[str, Heal]:
        """It heals itself, but for nodes that are younger than the copy."""
        if not ETCD_COPY.exists():
            raise CannotNow("no copy was taken")
        with self._control_plane, healed_by(self._register_nodes, "etcd"):
            try:
                controlplane.restore_etcd(ETCD_COPY)
                self.history.note("faults", SEEN, "restored")
            finally:
                controlplane.start_all_again()
        return "", self._register_nodes

    def _register_nodes(self) -> None:
        """Start the nodes again that run without a Node object: a kubelet that runs does not make it anew."""
        self._start_control_plane()
        for member in scene.running():
            if not is_registered(member):
                start(member)

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
