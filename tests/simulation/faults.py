"""What goes wrong: nodes, disks, agents, networks, clocks, the API server, operators. None takes a file's last copy.

A fault may take a copy only while another node *of the map* holds the file whole: an order that was right when it was
given, of a copy outside the map, may still be under way.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from colocation.kube.api import GROUPS, NODES
from colocation.model.conditions import Reason
from colocation.model.names import LABEL_DRAIN, LABEL_WEIGHT

from .administrator import Administrator
from .checks import LONGEST_FREEZE_SECONDS
from .disk_faults import SICK, DiskFaults
from .disks import GIB, File
from .etcd import Etcd
from .world import World

if TYPE_CHECKING:
    from .operators import SimulatedOperator
    from .users import Users

MOST_NODES = 7
FEWEST_NODES = 4
Fault = Callable[[], object]
CLOCK_STEPS = (-7200, -300, -60, 60, 300, 7200)
"""In seconds."""


class Faults:
    """Each method lets one thing go wrong, or puts it right. ``kinds``: those of the random runs; with those of
    ``disks`` where agents tell disks apart.
    """

    def __init__(self, world: World, users: "Users", operators: "list[SimulatedOperator]") -> None:
        self._world = world
        self._random = world.random
        self._operators = operators
        self.pause = 0.0
        self.staying = ""
        self.kinds: list[Fault] = [
            self.take_down, self.bring_up, self.bring_up, self.delete_node, self.grow, self.damage, self.fill_disk,
            self.empty_disks, self.restart_agent, self.replace_agent, self.cut_off, self.mute, self.reconnect,
            self.sicken, self.hold_jobs, self.cordon, self.taint,
            self.evict, self.evict, self.take_back, self.end_holder, self.step_operators_clock, self.step_servers_clock,
            self.step_node_clock,
            self.api_goes_away, self.etcd_refuses, self.kill_operator, self.freeze_operator, self.let_time_pass,
            users.load, users.load, users.load, users.load, users.roll_back, users.move, users.move, users.drop,
            users.recover, users.recover, users.change_replicas, users.change_group, users.mark, users.weigh,
            users.drain, users.attack, users.make_late_table,
        ]  # fmt: skip
        self._has_moved_unseen = False
        """Whether an agent has got a new address while an operator could not hear of it."""
        self.administrator = Administrator(world, operators)
        self.etcd = Etcd(world, operators, self.administrator)
        self.disks = DiskFaults(world, self._is_last, self._is_needed)
        if world.tells_disks_apart:
            self.kinds += [*self.disks.kinds, *self.disks.kinds]
        if world.loses_etcd:
            often = [users.drop, users.load_and_drop, users.recover, users.recover_and_drop, users.load]
            self.kinds += [self.etcd.copy_or_restore, *often] * 8

    def one(self) -> None:
        """Any of them."""
        fault = self._random.choice(self.kinds)
        self._world.note(fault.__name__)
        fault()
        self._world.verdicts.look()

    def _any_node(self) -> str:
        return self._random.choice(sorted(self._world.machines))

    # Nodes

    def take_down(self) -> None:
        if sum(not one.is_up for one in self._world.machines.values()) < 2:
            self._world.take_down(self._any_node())

    def bring_up(self) -> None:
        down = [name for name, one in sorted(self._world.machines.items()) if not one.is_up]
        if down:
            self._world.bring_up(self._random.choice(down))

    def delete_node(self) -> None:
        node = self._any_node()
        if len(self._world.machines) > FEWEST_NODES and not self._is_needed(node):
            self._world.delete_node(node)

    def grow(self) -> None:
        if len(self._world.machines) < MOST_NODES:
            self._world.add_node(self._random.choice("ab"), {"disks": "fast"})

    def cordon(self) -> None:
        node = self._any_node()
        self._world.api.merge(NODES, "", node, {"spec": {"unschedulable": self._random.choice([True, None])}})

    def taint(self) -> None:
        taints = [{"key": "keep", "value": "out", "effect": self._random.choice(["NoSchedule", "NoExecute"])}]
        chosen = self._random.choice([taints, None])
        self._world.api.merge(NODES, "", self._any_node(), {"spec": {"taints": chosen}})

    def evict(self) -> None:
        """`kubectl drain` of one node, or of two at a time; of a pod alone where the node is not cordoned."""
        nodes, pods = sorted(self._world.machines), self._world.holder_pods
        for node in self._random.sample(nodes, self._random.choice([1, 1, 2])):
            self._random.choice([pods.drain, pods.drain, pods.evict])(node)

    def take_back(self) -> None:
        """`kubectl uncordon` of a node that is drained, if there is one."""
        drained = sorted(self._world.holder_pods.drains)
        self._world.holder_pods.cordon(self._random.choice(drained or sorted(self._world.machines)), cordoned=False)

    def end_holder(self) -> None:
        """A kubelet ends a holder, or an evicted one's grace is over."""
        self._random.choice([self._world.holder_pods.fail, self._world.holder_pods.run_out])(self._any_node())

    # Disks

    def damage(self) -> None:
        disk = self._world.machines[self._any_node()].disk
        files = [file for file in disk.files() if disk.holds(file) and not self._is_last(disk.node, file)]
        if files:
            file = self._random.choice(files)
            disk.damage(file)
            self._world.lose([file])

    def fill_disk(self) -> None:
        disk = self._world.machines[self._any_node()].disk
        disk.foreign_bytes += disk.free_bytes
        self._world.machines[disk.node].agent.ring()

    def empty_disks(self) -> None:
        for machine in self._world.machines.values():
            machine.disk.foreign_bytes = 10 * GIB
            machine.agent.ring()

    def sicken(self) -> None:
        """Every clone to the node fails, or does not any more."""
        machine = self._world.machines[self._any_node()]
        machine.sick = not machine.sick

    def hold_jobs(self) -> None:
        """Clone Jobs stay pending on the node, or do not any more."""
        machine = self._world.machines[self._any_node()]
        machine.holds_jobs = not machine.holds_jobs

    def _is_last(self, node: str, file: File) -> bool:
        """Whether no other node of the map holds the file whole; of one that no one wants, or may be wanted back."""
        table = self._world.table_at(file.key)
        if table is None:
            return True
        row = self._world.row_of(table, file.bucket)
        return not any(other != node and other in row for other in self._world.holders(file))

    def _is_needed(self, node: str) -> bool:
        disk = self._world.machines[node].disk
        return bool(disk.bin) or any(self._is_last(node, file) for file in disk.files() if disk.holds(file))

    def _has_last_of_dropped(self, node: str) -> bool:
        """Whether a dropped table, or one that a restored etcd does not know, has whole files, or a manifest, on this
        node alone.
        """
        elsewhere: set[File | str] = set()
        for disk in [machine.disk for name, machine in self._world.machines.items() if name != node]:
            for folder in (*disk.folders.values(), *(one.folder for one in disk.bin.values())):
                elsewhere.update(folder.files.keys() - disk.damaged, folder.manifests)
        disk = self._world.machines[node].disk
        here = [one.folder for one in disk.bin.values()]
        here += [folder for key, folder in disk.folders.items() if self._world.table_at(key) is None]
        return any(one not in elsewhere for folder in here for one in (*folder.files, *folder.manifests))

    # Agents and networks

    def restart_agent(self) -> None:
        self._world.restart_agent(self._any_node())

    def replace_agent(self) -> None:
        self._world.start_agent_pod(self._any_node())
        self._has_moved_unseen |= any(one.faults.away for one in self._operators)
        if any(one.lost_events_rate for one in self._operators):  # its old address may count till the next list
            self._world.verdicts.confuse()

    def cut_off(self) -> None:
        self._world.network.cut_off(self._any_node())

    def mute(self) -> None:
        """Requests arrive, answers do not."""
        self._world.network.silence(self._any_node())

    def reconnect(self) -> None:
        self._world.network.reconnect()

    # Clocks

    def step_operators_clock(self) -> None:
        self._random.choice(self._operators).wall.step_seconds += self._random.choice(CLOCK_STEPS)

    def step_servers_clock(self) -> None:
        self._world.api_wall.step_seconds += self._random.choice(CLOCK_STEPS)

    def step_node_clock(self) -> None:
        """By less than what is between the longest load and the grace: more is more than a grace can bear."""
        self._world.machines[self._any_node()].wall.step_seconds += self._random.choice([-100, -30, 30, 100])

    def let_time_pass(self) -> None:
        """Longer than most tolerances and deadlines."""
        self.pause = self._random.choice([60, 180, 400])

    # API server and operators

    def api_goes_away(self) -> None:
        """For one operator, for a while."""
        operator = self._random.choice(self._operators)
        operator.faults.away = True
        self._world.loop.call_later(self._random.choice([5, 30, 90]), self._api_comes_back, operator)

    def _api_comes_back(self, operator: "SimulatedOperator") -> None:
        operator.faults.away = False
        if self._has_moved_unseen:  # until now it asked an agent at its old address, in vain
            self._world.verdicts.confuse()
        self._has_moved_unseen = False

    def etcd_refuses(self) -> None:
        """The status of one group is too large, for a while."""
        groups = self._world.api.peek(GROUPS)
        if groups:
            metadata = self._random.choice(groups)["metadata"]
            refused = (GROUPS, (metadata["namespace"], metadata["name"]))
            self._world.api.refused.add(refused)
            self._world.loop.call_later(self._random.choice([20, 90]), self._world.api.refused.discard, refused)

    def kill_operator(self) -> None:
        self._random.choice(self._operators).restart()

    def freeze_operator(self) -> None:
        """The process stands still for a while and does not know: its Lease may be another's when it goes on."""
        seconds = self._random.choice([10, 50, LONGEST_FREEZE_SECONDS])
        self._random.choice(self._operators).freeze(seconds)
        self._world.verdicts.confuse()
        for later in (seconds, seconds + 5):  # it goes on by sending what it was about to send
            self._world.loop.call_later(later, self._world.verdicts.confuse)

    # The end of all

    def let_one_node_stay_bad(self) -> str:
        """One node takes no clones for ever, whatever else heals; its name."""
        node = self._any_node()
        machine = self._world.machines[node]
        diseases: list[str] = [*SICK] if self._world.tells_disks_apart else []
        if diseases and self._is_needed(node):
            diseases.remove(Reason.DISK_MISSING)
        self.staying = self._random.choice(["sick", "full", "holds_jobs", "cordoned", *diseases])
        if self.staying in diseases and self._has_last_of_dropped(node):
            self.staying = "cordoned"  # nothing can be brought back from a disk that takes no writes
        self._world.note(f"{node} stays {self.staying} for ever")
        machine.sick = self.staying == "sick"
        machine.holds_jobs = self.staying == "holds_jobs"
        machine.disk.is_full_for_ever = self.staying == "full"
        if machine.disk.is_full_for_ever:
            machine.disk.foreign_bytes += machine.disk.free_bytes
            machine.agent.ring()
        if self.staying in diseases:
            self.disks.set_fault(node, Reason(self.staying))
        if self.staying == "cordoned":
            self._world.api.merge(NODES, "", node, {"spec": {"unschedulable": True}})
        return node

    def heal(self) -> None:
        """All faults end."""
        world = self._world
        world.network.faults.order_rate = world.network.faults.slow_rate = 0.0
        world.kubelet.fail_rate = world.kubelet.hang_rate = 0.0
        self.reconnect()
        world.api.refused.clear()
        if world.tells_disks_apart:
            self.disks.heal()  # which may put the node's own disk back, as full as it was
        self.empty_disks()
        for name, machine in list(world.machines.items()):
            machine.sick = machine.holds_jobs = False
            world.bring_up(name)
            world.api.merge(NODES, "", name, {"spec": {"unschedulable": None, "taints": None}})
            world.label(name, LABEL_DRAIN, None)
            world.label(name, LABEL_WEIGHT, None)
            world.label(name, "disks", "fast")
        for operator in self._operators:
            operator.faults.rate = operator.faults.stale_rate = 0.0
            operator.faults.away = False
            operator.lost_events_rate = 0.0
            if not operator.is_alive:
                operator.start()
