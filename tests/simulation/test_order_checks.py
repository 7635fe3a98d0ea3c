"""The simulation's own judgement of orders is as strict as an agent's."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from colocation.agent.conversation import Order, Question
from colocation.kube.api import GROUPS
from colocation.model.agent import AskedTable, DeletionProof, TableReference
from colocation.storage.paths import TablePath

from .disks import File
from .orders import OrderChecks

MANIFEST = "a" * 64
TABLE = TablePath("shop", "orders-0a1b2c3d")
FILE = File(TABLE.namespace, TABLE.directory, load=1, bucket=0, size_bytes=1)
AGENT = SimpleNamespace(node="node-1", url="https://10.0.0.1:8440")


class Judge:
    """Checks of a world with one agent, by a clock that the test moves on."""

    def __init__(self) -> None:
        self.loop = SimpleNamespace(elapsed=0.0)
        self.failures: list[str] = []
        network = SimpleNamespace(agent_at=lambda url: AGENT)
        manifests = {MANIFEST: frozenset({FILE})}
        world = SimpleNamespace(loop=self.loop, network=network, manifests=manifests, table_at=lambda key: {})
        self.checks = OrderChecks(cast(Any, world), self._require)

    def _require(self, is_so: object, text: str) -> None:
        if not is_so:
            self.failures.append(text)

    def read_group(self, map_version: int) -> None:
        """The operator reads the group, whose map is of this version."""
        self.loop.elapsed += 1
        status = {"mapVersion": map_version, "backendsPerBucketSeq": [["node-1"]], "members": [{"uid": "table"}]}
        body = {"metadata": {"uid": "group", "name": "sales", "namespace": "shop"}, "status": status}
        self.checks.after_group_write(body)
        self.checks.after_read("operator", GROUPS, ("shop", "sales"), body)

    def hear(self, map_version: int) -> None:
        """The agent answers a question that names the map of this version."""
        self.loop.elapsed += 1
        reference = TableReference(namespace=TABLE.namespace, directory=TABLE.directory, manifest=MANIFEST)
        asked = AskedTable(reference=reference, uid="table", group_uid="group", map_version=map_version)
        question = Question("session", map_version, 1, {str(TABLE): asked})
        self.checks.after_answer("operator", cast(Any, AGENT), question, self.loop.elapsed)

    def wrong_epochs(self, map_version: int) -> list[str]:
        """What is wrong with what the agent was asked, when a drop by the map of this version is sent now."""
        proof = DeletionProof(
            instance="agent", not_after_seconds=9, term=1, table_uid="table", group_uid="group", map_version=map_version
        )
        self.checks.before_drop_is_sent("operator", AGENT.url, Order("drop", TABLE, proof, (MANIFEST,), 0))
        return [text for text in self.failures if "its agent was asked for" in text]


@pytest.mark.parametrize(
    ("heard_before", "heard_after", "is_right"),
    [
        pytest.param([2], [], True, id="asked about this map"),
        pytest.param([2], [3], True, id="overtaken while it waited: it was right when the group was read"),
        pytest.param([1], [2], True, id="asked about this map since"),
        pytest.param([1], [], False, id="asked about an older map"),
        pytest.param([1], [3], False, id="never asked about this map, and overtaken"),
        pytest.param([2, 1], [3], False, id="asked about another one in between, and overtaken"),
        pytest.param([], [3], False, id="asked for the first time after the group was read"),
    ],
)
def test_a_drop_was_right_when_its_group_was_read(
    heard_before: list[int], heard_after: list[int], is_right: bool
) -> None:
    """A newer question excuses no order that the agent would have refused before it, too."""
    judge = Judge()
    for version in heard_before:
        judge.hear(version)
    judge.read_group(2)
    for version in heard_after:
        judge.hear(version)
    assert (judge.wrong_epochs(2) == []) == is_right
