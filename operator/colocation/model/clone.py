"""What a clone Job is told to do; see ARCHITECTURE.md, "Clone Job"."""

import base64
from collections.abc import Mapping

import zstandard
from pydantic import Field

from .agent import TableReference
from .base import Frozen


class CloneSource(Frozen):
    """An agent that holds a live replica of the bucket."""

    node: str
    url: str = Field(description="https://<pod IP>:<port>")


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
    """The environment variables that tell a Job its spec: ``CLONE_SPEC``, then ``CLONE_SPEC_2``, … if it is long.

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
    """The spec with as many of its tables, the first of them, as a Job can be told of; at least one."""
    while len(spec.tables) > 1 and (length := len(_encoded(spec))) > MAX_SPEC_LENGTH:
        share = 0.95 * MAX_SPEC_LENGTH / length
        spec = spec.model_copy(update={"tables": spec.tables[: max(1, int(len(spec.tables) * share))]})
    return spec


def spec_from_environment(environment: Mapping[str, str]) -> CloneSpec:
    """The spec that these environment variables tell.

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
