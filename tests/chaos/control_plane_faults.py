"""Faults of the programs that all else asks: etcd and the API server. See ``faults``."""

import threading
from dataclasses import dataclass, field
from functools import partial
from random import Random

from devcluster import cluster as devcluster
from devcluster import controlplane, paths, processes
from devcluster import node as nodes
from devcluster.errors import DevclusterError

from .history import FAIL, OK, SEEN, History
from .targets import CannotNow, Heal, healed_by

ETCD_COPY = paths.STATE / "etcd-copy"
SAVE = "save-etcd"


@dataclass
class ControlPlaneFaults:
    """A method of a fault's name makes it and returns what heals it, if anything does.

    ``_lock``: held while programs of the control plane are ended, started or copied, not for the time that a fault
    holds.
    """

    history: History
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def api_server_stopped(self, _: Random) -> tuple[str, Heal]:
        return "", self._kill("kube-apiserver")

    def watches_cut(self, _: Random) -> tuple[str, None]:
        with self._lock:
            heal = self._kill("kube-apiserver")
            with healed_by(heal, "kube-apiserver"):
                heal()
        return "", None

    def etcd_stopped(self, _: Random) -> tuple[str, Heal]:
        return "", self._kill("etcd")

    def _kill(self, program: str) -> Heal:
        with self._lock:
            if not processes.running(program):
                raise CannotNow(f"{program} does not run")
            with healed_by(self.start, program):
                controlplane.kill(program)
        return self.start

    def start(self) -> None:
        """Start what does not run.

        Raises:
            DevclusterError: the API server does not serve in time.
        """
        with self._lock:
            controlplane.start_all_again()
            if not controlplane.api_is_ready():
                raise DevclusterError("the API server does not serve")

    def save_etcd(self) -> None:
        """Take the copy that ``etcd-restored`` brings back."""
        number = self.history.invoke("faults", SAVE)
        try:
            with self._lock:
                controlplane.copy_etcd(ETCD_COPY)
        except (DevclusterError, OSError) as error:
            self.history.note("faults", FAIL, SAVE, number, why=str(error)[:500])
            return
        self.history.note("faults", OK, SAVE, number)

    def etcd_restored(self, _: Random) -> tuple[str, Heal]:
        """It heals itself, but for the nodes' kubelets: see ``_end_stale_watches``."""
        if not ETCD_COPY.exists():
            raise CannotNow("no copy was taken")
        heal = partial(self._end_stale_watches, set(nodes.known()))
        with self._lock, healed_by(heal, "etcd"):
            try:
                controlplane.restore_etcd(ETCD_COPY)
                self.history.note("faults", SEEN, "restored")
            finally:
                controlplane.start_all_again()
        return "", heal

    def _end_stale_watches(self, stale: set[nodes.Node]) -> None:
        """Start the programs of these nodes again, as Kubernetes asks for after a restore; done with one, it is none of
        them. One that does not run, or in parts, is started as a whole by anyone who heals it.

        Their watches would go on from revisions that the restored etcd has not reached, so that they would hear of
        nothing for minutes; and a kubelet makes its Node object, if that is younger than the copy, only when it starts.
        Pods go on. The operator and the agents have to find out by themselves: users do not start them again.
        """
        self.start()
        for member in sorted(stale, key=lambda node: node.number):
            if nodes.is_complete(member):
                devcluster.restart_node_agents(member.number)
            stale.discard(member)
