"""What a clone Job is told to do; see ARCHITECTURE.md, "Clone Job"."""

from collections.abc import Mapping

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
    max_bandwidth_mib_per_second: float | None = Field(None, gt=0)


SPEC_VARIABLE = "CLONE_SPEC"
MAX_VARIABLE_LENGTH = 100_000
"""Linux takes 131,071 bytes for one environment variable; many tables with many retained snapshots need more."""


def spec_to_environment(spec: CloneSpec) -> dict[str, str]:
    """The environment variables that tell a Job its spec: ``CLONE_SPEC``, then ``CLONE_SPEC_2``, … if it is long."""
    text = spec.model_dump_json(by_alias=True)
    parts = [text[start : start + MAX_VARIABLE_LENGTH] for start in range(0, len(text), MAX_VARIABLE_LENGTH)]
    return {_variable(number): part for number, part in enumerate(parts, start=1)}


def spec_from_environment(environment: Mapping[str, str]) -> CloneSpec:
    """The spec that these environment variables tell.

    Raises:
        pydantic.ValidationError: they hold no CloneSpec as JSON.
    """
    parts: list[str] = []
    while (part := environment.get(_variable(len(parts) + 1))) is not None:
        parts.append(part)
    return CloneSpec.model_validate_json("".join(parts))


def _variable(number: int) -> str:
    return SPEC_VARIABLE if number == 1 else f"{SPEC_VARIABLE}_{number}"


def clone_directory(namespace: str, group: str, bucket: int) -> str:
    """Folder of a clone in progress, relative to the data root."""
    return f".incoming/clones/{namespace}.{group}.{bucket:05d}"
