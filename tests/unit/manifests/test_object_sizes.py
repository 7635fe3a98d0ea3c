"""What is promised to fit into Kubernetes' objects does: 200 tables of 2,000 partitions in one namespace, and more.

etcd takes 1.5 MiB per object, a ConfigMap holds 1 MiB, Linux takes 131,071 bytes per environment variable.
"""

import json
import random
from typing import Any

import pytest

from colocation.manifests.clone_job import CloneJobSettings, clone_job
from colocation.manifests.config_map import SparkConfigMap, spark_config_map_data
from colocation.manifests.spark_pods import SparkPlacement
from colocation.model.agent import TableReference
from colocation.model.base import MAX_MAP_BYTES, MAX_SEQUENCE_BYTES, Frozen
from colocation.model.clone import CloneSource, CloneSpec, fitting, spec_from_environment
from colocation.model.conditions import Condition
from colocation.model.group import (
    MAX_ALLOWED_NAMESPACES,
    MAX_LISTED_UNSTABLE_BUCKETS,
    MAX_RECYCLED_TABLES,
    MAX_TABLES,
    BucketSequence,
    CloneCounts,
    ColocationGroupSpec,
    ColocationGroupStatus,
    GroupMember,
    RecycledTable,
    UnstableBucket,
)
from colocation.model.table import (
    COLUMNS_DIGEST_DIGITS,
    MAX_RETAINED_SNAPSHOTS,
    ColocatedTableStatus,
    Retention,
    TableSnapshot,
)
from colocation.planner.placement import map_bytes

TABLES, PARTITIONS, BUCKETS = 200, 2000, 1000
ETCD_BYTES = 3 << 19
PROCESS_BYTES = 2 << 20
DIGITS = random.Random(0)
CONFIG_MAP_BYTES = 1 << 20
VARIABLE_BYTES = (1 << 17) - 1
LONG_NAME = "a" * 63
NODE = "ip-10-100-200-100.eu-central-1.compute.internal-{:04d}"
SETTINGS = CloneJobSettings(namespace="system", image="registry.example/colocation-operator:1.0.0")
CONDITION_MESSAGE = "m" * 2000


UID, TIME = "00000000-0000-0000-0000-000000000000", "2026-11-21T00:00:00Z"


def digest(number: int) -> str:
    return f"{number:064x}"


LARGE_SNAPSHOT = TableSnapshot(
    id=10**9, manifest=f"sha256:{digest(1)}", committed_at=TIME, partitions=PARTITIONS, files=PARTITIONS * BUCKETS,
    rows=10**13, bytes=10**15,
)  # fmt: skip
MEMBER: dict[str, Any] = {
    "namespace": LONG_NAME, "name": LONG_NAME, "uid": UID, "snapshot": LARGE_SNAPSHOT,
    "replicas": 7, "columns_digest": "0" * COLUMNS_DIGEST_DIGITS,
}  # fmt: skip


def stored_bytes(part: Frozen) -> int:
    """Of a part of an object, as the API server stores it."""
    return len(json.dumps(part.to_json_dict(), separators=(",", ":")))


def clone_spec(tables: int, retained: int) -> CloneSpec:
    """A clone of so many tables, their names as long as they may be, their manifests as different as they are."""
    references = tuple(
        TableReference(
            namespace=LONG_NAME,
            directory=f"{LONG_NAME}-{number:08x}",
            manifest=random_digest(),
            retained_manifests=tuple(random_digest() for _ in range(retained)),
        )
        for number in range(tables)
    )
    sources = tuple(CloneSource(node=NODE.format(one), url=f"https://10.0.0.{one}:8440") for one in range(7))
    return CloneSpec(
        namespace=LONG_NAME, group=LONG_NAME, bucket=7, target=NODE.format(9), tables=references, sources=sources
    )


def random_digest() -> str:
    """Which no compression makes shorter than its bytes."""
    return f"{DIGITS.getrandbits(256):064x}"


@pytest.mark.parametrize(
    ("tables", "retained", "is_whole"),
    [
        pytest.param(1, 0, True, id="one table"),
        pytest.param(MAX_TABLES, Retention().snapshots, True, id="all tables, as many snapshots as by default"),
        pytest.param(MAX_TABLES, 25, False, id="all tables, 25 snapshots each"),
        pytest.param(MAX_TABLES, MAX_RETAINED_SNAPSHOTS, False, id="as many as there can be"),
        pytest.param(1, MAX_RETAINED_SNAPSHOTS, True, id="one table with all its snapshots"),
    ],
)
def test_clone_job_never_outgrows_an_object(tables: int, retained: int, is_whole: bool) -> None:
    """What does not fit into one Job is left to the next; a process and the API server take what it is given."""
    wanted = clone_spec(tables, retained)
    spec = fitting(wanted)
    job = clone_job("clone-x", spec, None, 0, SETTINGS)
    [container] = job["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    assert max(len(f"{name}={value}\0") for name, value in environment.items()) <= VARIABLE_BYTES
    assert len(json.dumps(job)) < ETCD_BYTES
    assert sum(map(len, environment.values())) < PROCESS_BYTES
    assert spec_from_environment(environment) == spec
    assert spec.tables == wanted.tables[: len(spec.tables)]
    assert (len(spec.tables) == tables) is is_whole
    assert len(spec.tables) >= tables // 8, "a few Jobs are enough"


def test_clone_spec_of_an_older_operator_is_read() -> None:
    """Its Jobs may run while the operator is upgraded."""
    spec = clone_spec(2, 1)
    assert spec_from_environment({"CLONE_SPEC": spec.model_dump_json(by_alias=True)}) == spec


@pytest.mark.parametrize("text", ["", "bm90IHpzdGQ=", "***", "{}"])
def test_other_clone_specs_are_refused(text: str) -> None:
    """With a ValueError, which the clone tells of."""
    with pytest.raises(ValueError, match=r"CLONE_SPEC|CloneSpec|base64"):
        spec_from_environment({"CLONE_SPEC": text})


def largest_map(limit_bytes: int) -> BucketSequence:
    """Of 3 replicas on nodes with long names, just within the limit."""
    nodes = [NODE.format(one) for one in range(50)]
    row_bytes = map_bytes([nodes[:3]])
    return tuple(tuple(nodes[(bucket + one) % 50] for one in range(3)) for bucket in range(limit_bytes // row_bytes))


def fullest_group(by_hand: bool) -> tuple[ColocationGroupSpec, ColocationGroupStatus]:
    """200 tables and 500 in the recycle bin, all with the longest names, 1,000 ended clones, all buckets unstable."""
    rows = largest_map(MAX_SEQUENCE_BYTES if by_hand else MAX_MAP_BYTES)
    problem = UnstableBucket(bucket=0, reason="NodeNotReady", message=CONDITION_MESSAGE, since=TIME)
    status = ColocationGroupStatus(
        tables=tuple(f"{LONG_NAME}/{number:063d}*" for number in range(TABLES + MAX_RECYCLED_TABLES)),
        nodes=tuple(sorted({node for row in rows for node in row})),
        backends_per_bucket_seq=rows,
        unstable_buckets=(problem,) * MAX_LISTED_UNSTABLE_BUCKETS,
        clones=CloneCounts(counted=(UID,) * 1000),
        members=tuple(GroupMember(**MEMBER) for _ in range(TABLES)),
        recycled=tuple(
            RecycledTable(**MEMBER, deleted_at=TIME, purge_at=TIME, recovery_uids=(UID,))
            for _ in range(MAX_RECYCLED_TABLES)
        ),
        conditions=(Condition(type="Stable", status="False", reason="NodeNotReady", message=CONDITION_MESSAGE),) * 4,
    )
    spec = ColocationGroupSpec(
        bucket_key=("bigint",) * 16, buckets=len(rows), replicas=3, bucket_sequence=rows if by_hand else None,
        allowed_namespaces=tuple(f"{number:063d}" for number in range(MAX_ALLOWED_NAMESPACES)),
    )  # fmt: skip
    return spec, status


@pytest.mark.parametrize("by_hand", [False, True], ids=["map of the operator's", "map set by hand"])
def test_group_with_the_largest_map_and_many_tables_and_problems(by_hand: bool) -> None:
    """With room for what the API server adds; tests/integration stores such groups."""
    assert sum(map(stored_bytes, fullest_group(by_hand))) < 0.95 * ETCD_BYTES


def test_what_a_group_remembers_of_a_table() -> None:
    """The numbers of docs/how-to/operate.md, at the longest names."""
    dropped = RecycledTable(**MEMBER, deleted_at=TIME, purge_at=TIME)
    assert stored_bytes(GroupMember(**MEMBER)) < 650
    assert stored_bytes(dropped) < 750


def test_table_with_many_partitions_and_snapshots() -> None:
    """Partitions and files are counted, not listed; each retained snapshot takes a line."""
    status = ColocatedTableStatus(snapshot=LARGE_SNAPSHOT, history=(LARGE_SNAPSHOT,) * MAX_RETAINED_SNAPSHOTS)
    assert len(status.model_dump_json()) < 64_000


def test_config_map_of_a_group_on_many_nodes() -> None:
    """1,000 nodes with long names: their agents, and the affinity of driver and executors."""
    nodes = tuple(NODE.format(one) for one in range(1000))
    placement = SparkPlacement(namespace=LONG_NAME, group=LONG_NAME, has_map=True)
    urls = dict.fromkeys(nodes, "https://10.100.200.100:8440")
    content = SparkConfigMap(placement=placement, agent_urls=urls, ca_certificate="c" * 4000)
    assert sum(map(len, spark_config_map_data(content).values())) < CONFIG_MAP_BYTES
