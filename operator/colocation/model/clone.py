"""The task of a clone Job (docs/reference/contracts.md), and the bandwidth that clones may use."""

import base64
import math
from collections.abc import Mapping

import zstandard
from pydantic import Field

from .agent import TableReference
from .base import Frozen
from .group import Balancing


class CloneSource(Frozen):
    """An agent that holds a live replica of the bucket."""

    node: str
    url: str = Field(description="https://<pod IP>:<port>")
    shares_certificate: bool = Field(False, description="Of the release before: its certificate names no node.")


class CloneSpec(Frozen):
    """Make all files of one bucket complete on one node, for all tables of the group."""

    namespace: str
    group: str
    bucket: int
    target: str = Field(description="The node on which the Job runs.")
    tables: tuple[TableReference, ...]
    sources: tuple[CloneSource, ...] = Field(min_length=1)
    max_bandwidth_mib_per_second: float | None = Field(None, gt=0, description="Of this Job; null = no limit.")
    max_node_bandwidth_mib_per_second: float | None = Field(
        None, gt=0, description="Of all clones that write to the target; they share it. Null = no limit."
    )
    disk_id: str = Field("", description="Of the target's data root; nothing is written to another disk. Empty = any.")


SPEC_VARIABLE = "CLONE_SPEC"
MAX_VARIABLE_LENGTH = 100_000
"""Linux takes 131,071 bytes for one environment variable; many tables with many retained snapshots need more."""
MAX_DECODED_BYTES = 64 << 20
MAX_SPEC_LENGTH = 800_000
"""Characters of a whole spec: etcd takes 1.5 MiB for the Job, and a process some 2 MiB of environment."""


def spec_to_environment(spec: CloneSpec) -> dict[str, str]:
    """The environment variables that pass a Job its spec: ``CLONE_SPEC``, then ``CLONE_SPEC_2``, … if it is long.

    JSON as it is while it fits into one variable, else compressed (Zstandard, Base64).

    Raises:
        ValueError: it is too long for a Job; see ``fitting``.
    """
    text = _encoded(spec)
    if len(text) > MAX_SPEC_LENGTH:
        raise ValueError(f"a clone of {len(spec.tables)} tables takes {len(text)} characters of {MAX_SPEC_LENGTH}")
    parts = [text[start : start + MAX_VARIABLE_LENGTH] for start in range(0, len(text), MAX_VARIABLE_LENGTH)]
    return {_variable(number): part for number, part in enumerate(parts, start=1)}


def fitting(spec: CloneSpec) -> CloneSpec:
    """The spec with as many of its first tables as fit into a Job; at least one."""
    while len(spec.tables) > 1 and (length := len(_encoded(spec))) > MAX_SPEC_LENGTH:
        share = 0.95 * MAX_SPEC_LENGTH / length
        spec = spec.model_copy(update={"tables": spec.tables[: max(1, int(len(spec.tables) * share))]})
    return spec


def spec_from_environment(environment: Mapping[str, str]) -> CloneSpec:
    """The spec in these environment variables.

    Raises:
        ValueError: they hold no CloneSpec (pydantic.ValidationError is one).
    """
    parts: list[str] = []
    while (part := environment.get(_variable(len(parts) + 1))) is not None:
        parts.append(part)
    return CloneSpec.model_validate_json(_decoded("".join(parts)))


def _encoded(spec: CloneSpec) -> str:
    text = spec.model_dump_json(by_alias=True)
    if len(text) <= MAX_VARIABLE_LENGTH and text.isascii():
        return text
    return base64.b64encode(zstandard.compress(text.encode())).decode()


def _decoded(text: str) -> bytes:
    if text.startswith("{") or not text:
        return text.encode()
    try:
        return zstandard.decompress(base64.b64decode(text, validate=True), MAX_DECODED_BYTES)
    except zstandard.ZstdError as error:
        raise ValueError(f"{SPEC_VARIABLE} is no Zstandard frame: {error}") from error


def _variable(number: int) -> str:
    return SPEC_VARIABLE if number == 1 else f"{SPEC_VARIABLE}_{number}"


def clone_directory(namespace: str, group: str, bucket: int) -> str:
    """Folder of a clone in progress, relative to the data root."""
    return f".incoming/clones/{namespace}.{group}.{bucket:05d}"


MIN_CLONE_MIB_PER_SECOND = 1.0
"""The least budget with which a repair still ends."""
MIN_CLUSTER_CLONES = 4
FAST_CLONE_MIB_PER_SECOND = 64.0
"""A clone with so much is quick enough: a larger budget of the cluster is for more clones at a time."""
RESERVED_FOR_REPAIRS = 1
"""Of the cluster's clones: a repair does not wait for large clones that only balance."""


class CloneBandwidth(Frozen):
    """How much all clones together may copy, over all groups; None = as much as they can.

    The node's is shared by those that run there now: each Job that writes to a node (``storage.bandwidth``), and
    the node's agent that answers those that read from it (``agent.quotas``). The cluster's is divided into shares
    of one size, as many as clones run at a time at most.
    """

    per_node_mib_per_second: float | None = Field(
        None, alias="perNodeMiBPerSecond", ge=MIN_CLONE_MIB_PER_SECOND,
        description="What clones may write to one node; as much may they read from it.",
    )
    per_cluster_mib_per_second: float | None = Field(
        None, alias="perClusterMiBPerSecond", ge=MIN_CLONE_MIB_PER_SECOND, description="What all clones may copy."
    )

    @property
    def max_clones(self) -> int | None:
        """Clones in the cluster at one time; None = no limit."""
        if self.per_cluster_mib_per_second is None:
            return None
        fast = min(self.per_node_mib_per_second or FAST_CLONE_MIB_PER_SECOND, FAST_CLONE_MIB_PER_SECOND)
        return max(MIN_CLUSTER_CLONES, math.ceil(self.per_cluster_mib_per_second / fast))

    def allows_another(self, clones: int, is_repair: bool) -> bool:
        """Whether one more clone may start in addition to those that run."""
        most = self.max_clones
        return most is None or clones < most - (0 if is_repair else RESERVED_FOR_REPAIRS)

    def of_clone(self, balancing: Balancing) -> float | None:
        """MiB per second of one clone of a group: the least of its shares; None = no limit.

        The node's budget is one of them, so that one clone keeps to it also where pods do not share a kernel's clock.
        """
        of_group, of_cluster = balancing.max_bandwidth_mib_per_second, self.per_cluster_mib_per_second
        shares = [
            None if of_group is None else of_group / balancing.max_concurrent_clones,
            None if of_cluster is None else of_cluster / (self.max_clones or 1),
            self.per_node_mib_per_second,
        ]
        return min((share for share in shares if share is not None), default=None)
