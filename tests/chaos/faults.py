"""Makes and heals each fault of the table on the dev cluster. None takes the last whole copy of a committed file.

A fault that cannot be made now (no clone runs, no file has another copy) is left out, and the history says so.
"""

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from colocation.model.names import LABEL_WEIGHT
from demo import cluster
from demo.shell import CommandFailed, kubectl
from devcluster import cgroups, clocks, controlplane, network, paths
from devcluster import cluster as devcluster
from devcluster import node as nodes
from devcluster.errors import DevclusterError

from . import cluster_view, scene
from .disk_faults import DiskFaults
from .disks import Disks
from .fault_kinds import BY_NAME
from .history import FAIL, OK, History
from .plan import Step
from .targets import CannotNow, Heal, any_node, start
from .violations import HEAL

HEAL_SECONDS = 240
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
class Faults:
    """``values``: of the chart. A method of a fault's name makes it and returns what heals it, if anything does."""

    history: History
    disks: Disks
    values: dict[str, str] = field(default_factory=dict)
    session_pod: Callable[[], str] = lambda: ""
    _healing: dict[int, tuple[int, str, Heal]] = field(default_factory=dict)
    _tag: str = scene.OTHER_TAG

    def make(self, step: Step) -> None:
        """Let it go wrong."""
        number = self.history.invoke("faults", step.name, plan=step.number)
        try:
            said, heal = self._action(step.name)(Random(f"fault {step.number} {step.die}"))
        except (
            CannotNow, CommandFailed, DevclusterError, cluster_view.ApiAway, subprocess.SubprocessError, OSError
        ) as error:  # OSError: the disk is full, or fails
            self.history.note("faults", FAIL, step.name, number, why=str(error)[:500])
            return
        if heal:
            self._healing[step.number] = (number, step.name, heal)
        self.history.note("faults", OK, step.name, number, what=said, holds=heal is not None)

    def heal(self, plan_number: int) -> None:
        """Put one right again, if it was made; tries until it is."""
        if plan_number not in self._healing:
            return
        number, name, action = self._healing.pop(plan_number)
        healing = self.history.invoke("faults", HEAL, fault=number, name=name)
        deadline = time.monotonic() + HEAL_SECONDS
        while True:
            try:
                action()
                break
            except (CommandFailed, DevclusterError, OSError, subprocess.SubprocessError) as error:
                if time.monotonic() > deadline:
                    self.history.note("faults", FAIL, HEAL, healing, why=str(error)[:500])
                    return
                time.sleep(2)
        self.history.note("faults", OK, HEAL, healing, fault=number, name=name)

    def heal_all(self) -> None:
        """Everything, the control plane first: the rest needs it."""
        controlplane.start_all_again()
        order = sorted(self._healing, key=lambda one: BY_NAME[self._healing[one][1]].one_of != "control plane")
        for number in order:
            self.heal(number)
        for member in scene.running():
            self._reconnect(member.number)
        scene.tag_images()

    def _action(self, name: str) -> Callable[[Random], tuple[str, Heal | None]]:
        method = name.replace("-", "_")
        found: Callable[[Random], tuple[str, Heal | None]]
        found = getattr(DiskFaults(self.disks), method, None) or getattr(self, f"_{method}")
        return found

    # Nodes and networks

    def _node_killed(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        devcluster.kill_node(member.number)
        return member.name, lambda: start(member)

    def _node_deleted(self, random: Random) -> tuple[str, Heal]:
        """Killed only, while the API server is away: that has to be healed all the same."""
        said, heal = self._node_killed(random)
        with suppress(CommandFailed, subprocess.SubprocessError):
            kubectl("delete", "node", said, "--wait=false", "--request-timeout=20s")
        return said, heal

    def _node_added(self, random: Random) -> tuple[str, None]:
        if len(nodes.known()) >= MOST_NODES:
            raise CannotNow(f"there are {MOST_NODES} nodes")
        member = devcluster.add_node()
        scene.tag_images()
        return member.name, None

    def _partition(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        devcluster.set_partitioned(member.number, True)
        return member.name, lambda: self._reconnect(member.number)

    def _partition_one_way(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        network.set_deaf(nodes.require_running(member), True)
        return member.name, lambda: self._reconnect(member.number)

    def _slow_link(self, random: Random) -> tuple[str, Heal]:
        member = any_node(random)
        network.shape_link(member.number, nodes.require_running(member), SLOW)
        return member.name, lambda: self._reconnect(member.number)

    def _reconnect(self, number: int) -> None:
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
        kubectl("label", "node", member.name, f"{label}={LEAST_WEIGHT}", "--overwrite", "--request-timeout=20s")

        def heal() -> None:
            kubectl("label", "node", member.name, f"{label}-", "--request-timeout=20s")

        deadline = time.monotonic() + CLONE_SECONDS
        while True:
            try:
                return self._delete_pod(random, cluster.OPERATOR_NAMESPACE, CLONE_PODS)[0], heal
            except (CannotNow, CommandFailed, cluster_view.ApiAway, subprocess.SubprocessError):
                if time.monotonic() > deadline:
                    return f"none, of {member.name}'s replicas", heal
            time.sleep(0.2)

    def _upgrade(self, _: Random) -> tuple[str, None]:
        own = cluster.OPERATOR_IMAGE.rpartition(":")[2]
        tag, self._tag = self._tag, own if self._tag == scene.OTHER_TAG else scene.OTHER_TAG
        cluster.install_colocation({**scene.VALUES, **self.values, "image.tag": tag})
        return tag, None

    # Control plane

    def _api_server_stopped(self, _: Random) -> tuple[str, Heal]:
        controlplane.kill("kube-apiserver")
        return "", controlplane.start_all_again

    def _watches_cut(self, _: Random) -> tuple[str, None]:
        controlplane.kill("kube-apiserver")
        controlplane.start_all_again()
        return "", None

    def _etcd_stopped(self, _: Random) -> tuple[str, Heal]:
        controlplane.kill("etcd")
        return "", controlplane.start_all_again

    def save_etcd(self) -> None:
        """Take the copy that ``etcd-restored`` brings back."""
        number = self.history.invoke("faults", SAVE)
        try:
            controlplane.copy_etcd(ETCD_COPY)
        except (DevclusterError, OSError) as error:
            self.history.note("faults", FAIL, SAVE, number, why=str(error)[:500])
            return
        self.history.note("faults", OK, SAVE, number)

    def _etcd_restored(self, _: Random) -> tuple[str, None]:
        if not ETCD_COPY.exists():
            raise CannotNow("no copy was taken")
        for program in ("kube-controller-manager", "kube-scheduler", "kube-apiserver", "etcd"):
            controlplane.kill(program)
        shutil.rmtree(controlplane.ETCD_DATA)
        shutil.copytree(ETCD_COPY, controlplane.ETCD_DATA)
        self.history.note("faults", "seen", "restored")
        controlplane.start_all_again()
        return "", None

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
        scene.ctr(member, "images", "tag", "--force", names[0], kept)
        for name in names:
            scene.ctr(member, "images", "rm", name)

        def heal() -> None:
            for name in names if nodes.holder_pid(member) else ():
                scene.ctr(member, "images", "tag", "--force", kept, name)

        return member.name, heal


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
