"""Disks that get sick, go away, come back, or are replaced: what agents that look after their disks report (profile
``disks``). As all faults, none takes a file's last copy: a disk that is pulled out comes back as it was.
"""

from collections.abc import Callable

from colocation.model.conditions import Reason

from .disks import File
from .world import World

SICK = (Reason.DISK_READ_ONLY, Reason.DISK_FAILING, Reason.DISK_MISSING)
MOST_SICK = 2
"""At once: with more, groups of two replicas only wait."""


class DiskFaults:
    """Each method lets one thing happen to a disk.

    Args:
        world: the cluster, whose agents tell disks apart.
        is_last: whether no other node of the map has the file whole.
        is_needed: whether the node has the last copy of anything.
    """

    def __init__(
        self, world: World, is_last: Callable[[str, File], bool], is_needed: Callable[[str], bool]
    ) -> None:
        self._world = world
        self._random = world.random
        self._is_last = is_last
        self._is_needed = is_needed
        self._is_over = False
        self.kinds: list[Callable[[], None]] = [
            self.sicken_disk, self.sicken_disk, self.mend_disks, self.mend_disks, self.flap, self.swap_disk,
            self.swap_disk, self.put_back, self.accept_disk, self.lose_sectors,
        ]  # fmt: skip

    def _any_node(self) -> str:
        return self._random.choice(sorted(self._world.machines))

    def set_fault(self, node: str, fault: Reason | None) -> None:
        """A node's disk becomes sick, or well."""
        machine = self._world.machines.get(node)
        if machine is not None and machine.disk.fault is not fault:
            self._world.note(f"the disk of {node} is {fault or 'well'}")
            machine.disk.set_fault(fault, self._world.loop.elapsed)
            self._world.verdicts.look()

    def sicken_disk(self) -> None:
        """It takes no writes, loses some, or is pulled out: it comes back as it was."""
        sick = [one for one in self._world.machines.values() if one.disk.fault]
        if len(sick) < MOST_SICK:
            self.set_fault(self._any_node(), self._random.choice(SICK))

    def mend_disks(self) -> None:
        """All that are not gone for good are well again."""
        for node in sorted(self._world.machines):
            self.set_fault(node, None)

    def flap(self) -> None:
        """It takes writes, and takes none, by turns."""
        node, seconds = self._any_node(), self._random.choice([3, 12, 40])
        fault = self._random.choice(SICK)
        for turn in range(2 * self._random.randint(2, 5)):
            self._world.loop.call_later(turn * seconds, self._flap, node, None if turn % 2 else fault)

    def _flap(self, node: str, fault: Reason | None) -> None:
        if not self._is_over:
            self.set_fault(node, fault)

    def swap_disk(self) -> None:
        """Somebody puts in an empty one; or the mount failed, and an empty folder is there."""
        node = self._any_node()
        machine = self._world.machines[node]
        if machine.is_up and machine.shelf is None and not self._is_needed(node):
            self._world.put_in(node, self._world.new_disk(node))

    def put_back(self) -> None:
        """The disk of before comes back, with all that lay on it then."""
        for node, machine in sorted(self._world.machines.items()):
            if machine.is_up and machine.shelf is not None and not self._is_needed(node):
                machine.shelf.set_fault(None, self._world.loop.elapsed)
                self._world.put_in(node, machine.shelf)
                machine.shelf = None
                return

    def accept_disk(self) -> None:
        """An admin accepts the disk that is there: the right one, or just any."""
        others = [node for node in sorted(self._world.machines) if self._world.has_other_disk(node)]
        self._world.accept_disk(self._random.choice(others) if others else self._any_node())

    def lose_sectors(self) -> None:
        """Several files of one disk cannot be read any more."""
        disk = self._world.machines[self._any_node()].disk
        for file in disk.files():
            if disk.holds(file) and not self._is_last(disk.node, file) and self._random.random() < 0.3:
                disk.damage(file)
                self._world.lose([file])

    def heal(self) -> None:
        """All disks are well; of those that were swapped some come back."""
        self._is_over = True
        self.mend_disks()
        if self._random.random() < 0.5:
            self.put_back()
