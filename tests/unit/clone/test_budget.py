"""A node's budget for clones, with real agents and Jobs: what Jobs write to it, and what they read from it.

Speeds are checked only from above: a slow machine makes them smaller.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from colocation.agent.authorizer import Identity
from colocation.model.agent import InventoryRequest
from colocation.storage.bandwidth import BURST_SECONDS, MIB
from tests.unit.agent.harness import SHOP_READER_TOKEN, AgentThread, FakeAuthorizer, Pki
from tests.unit.storage.tables import Table, data_path, make_table

from .scenario import BUCKET, clone_environment, clone_spec, put, report_on, start_clone

CLONE_TOKEN = "token-of-clone"
BUDGET_MIB_PER_SECOND = 2.0
OTHER_BUDGET_MIB_PER_SECOND = 8.0
"""Of the nodes that are not in question."""
LARGE_BYTES = 6 * MIB
SMALL_BYTES = 100_000
OTHER_BUCKET = BUCKET + 1
TABLE = make_table(
    {data_path(bucket): bytes([bucket]) * LARGE_BYTES for bucket in (BUCKET, OTHER_BUCKET)}
    | {data_path(bucket, load=f"small{number}"): bytes([bucket, number]) * (SMALL_BYTES // 2)
       for bucket in (BUCKET, OTHER_BUCKET) for number in range(30)}
)  # fmt: skip
IN_FLIGHT_BYTES = 2 * MIB
"""Two Jobs, four transfers each, a block of a quarter of a MiB each; or a piece of the other nodes' budget: what may go
beyond rate x time.
"""


def bytes_of(table: Table, bucket: int) -> int:
    return sum(map(len, table.contents_of(bucket).values()))


def run_together(environments: list[dict[str, str]]) -> float:
    """Run clones together; returns the seconds until all have ended."""
    started_at = time.monotonic()
    processes = [start_clone(environment) for environment in environments]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), errors
    return time.monotonic() - started_at


def check_budget(copied_bytes: int, seconds: float) -> None:
    allowed_bytes = BUDGET_MIB_PER_SECOND * MIB * (seconds + BURST_SECONDS) + IN_FLIGHT_BYTES
    assert copied_bytes <= allowed_bytes, f"{copied_bytes} bytes in {seconds:.1f} s"


def test_jobs_that_write_to_one_node_share_its_budget(agents: list[AgentThread], pki: Pki, tmp_path: Path) -> None:
    """Two Jobs, large and small files, one data root: together they are no faster than the budget."""
    put(agents[0], TABLE)
    root = tmp_path / "node-3"
    spec = clone_spec([TABLE], agents[:1]).model_copy(
        update={"max_node_bandwidth_mib_per_second": BUDGET_MIB_PER_SECOND}
    )
    specs = [spec, spec.model_copy(update={"bucket": OTHER_BUCKET})]
    seconds = run_together([clone_environment(one, root, pki) for one in specs])
    check_budget(bytes_of(TABLE, BUCKET) + bytes_of(TABLE, OTHER_BUCKET), seconds)
    states = report_on(root, TABLE).buckets
    assert (states[BUCKET].state, states[OTHER_BUCKET].state) == ("complete", "complete")


@pytest.fixture
def source(pki: Pki, tmp_path: Path) -> Iterator[AgentThread]:
    """An agent with a budget that knows the account of clones."""
    authorizer = FakeAuthorizer()
    name = f"clone-{TABLE.asked.uid[:8]}-b{BUCKET:05d}-deadbeef-x7k2p"
    authorizer.callers[CLONE_TOKEN] = Identity(
        "clone", extra=(("authentication.kubernetes.io/pod-name", (name,)),)
    )
    authorizer.rights["clone"] = {("get", "shop")}
    agent = AgentThread(tmp_path / "node-1", pki, authorizer).start(
        clone_account="clone", clone_mib_per_second=BUDGET_MIB_PER_SECOND
    )
    put(agent, TABLE)
    with agent.client() as client:
        client.inventory(InventoryRequest(session="one", number=1, changed=(TABLE.asked,)))
    yield agent
    agent.stop()


def test_jobs_that_read_from_one_node_share_its_budget(source: AgentThread, pki: Pki, tmp_path: Path) -> None:
    """Two Jobs write to two nodes, each with a budget of its own; the node they read from limits both."""
    spec = clone_spec([TABLE], [source]).model_copy(
        update={"max_node_bandwidth_mib_per_second": OTHER_BUDGET_MIB_PER_SECOND}
    )
    roots = [tmp_path / "node-3", tmp_path / "node-4"]
    seconds = run_together([clone_environment(spec, root, pki, CLONE_TOKEN) for root in roots])
    check_budget(2 * bytes_of(TABLE, BUCKET), seconds)
    assert [report_on(root, TABLE).buckets[BUCKET].state for root in roots] == ["complete", "complete"]


def test_readers_do_not_wait_for_clones(source: AgentThread) -> None:
    """Even if clones have used up the budget for hours."""
    source.running.node.clone_pace.wait_seconds(int(3600 * BUDGET_MIB_PER_SECOND) * MIB)
    with source.client(SHOP_READER_TOKEN) as client:
        content = client.get_file(*TABLE.path, data_path(BUCKET)).read()
        assert content == TABLE.contents[data_path(BUCKET)]
        path = data_path(BUCKET, load="small1")
        assert [frame.content for frame in client.get_files(*TABLE.path, (path,))] == [TABLE.contents[path]]
