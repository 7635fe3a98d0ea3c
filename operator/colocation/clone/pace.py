"""How fast a clone may go: its own share of its group's and the cluster's budget, and with others its node's."""

import contextlib
import threading
from types import TracebackType

from colocation.model.clone import CloneSpec
from colocation.storage.node_schedule import NodeSchedule
from colocation.storage.pace import MIB, Pace
from colocation.storage.root import DataRoot

PIECE_SECONDS = 0.25
"""Of a node's budget: so much is asked of a source at a time. The source holds the answer until its own budget allows
it, and whoever waits there waits for pieces of others, not for their files.
"""


class ClonePace(contextlib.AbstractContextManager["ClonePace"]):
    """Called with a number of bytes that have arrived, waits until they are allowed. Safe to share between threads.

    Args:
        spec: of the clone; its target is this node.
        root: this node's data root.
        stop: when set, calls raise ``Stopped``.

    Attributes:
        piece_bytes: how much of a file to ask for at a time; None = all of it.
    """

    def __init__(self, spec: CloneSpec, root: DataRoot, stop: threading.Event) -> None:
        own, node = spec.max_bandwidth_mib_per_second, spec.max_node_bandwidth_mib_per_second
        self._stack = contextlib.ExitStack()
        self._paces = [Pace(None if own is None else own * MIB, stop)]
        self.piece_bytes: int | None = None
        if node is not None:
            schedule = self._stack.enter_context(contextlib.closing(NodeSchedule(root)))
            self._paces.append(Pace(node * MIB, stop, schedule=schedule))
            self.piece_bytes = max(1, int(node * MIB * PIECE_SECONDS))

    def __call__(self, count: int) -> None:
        for pace in self._paces:
            pace(count)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
