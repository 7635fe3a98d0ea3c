"""Our own Spark programs as SparkApplications: load a table, compact it, drop its partitions, run a statement.

The programs lie in the Spark image under /opt/colocation/jobs; they print their result as one line that begins with
``COLOCATION_RESULT``.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field

from ..model.base import Frozen
from .errors import ManifestError
from .group_view import GroupView
from .kinds import KUBEFLOW
from .merge import Json, require_mapping

JOBS_DIRECTORY = "local:///opt/colocation/jobs"
DEFAULT_SPARK_VERSION = "4.1.4"
DEFAULT_SERVICE_ACCOUNT = "spark"
DEFAULT_EXECUTORS = 2
MAX_NAME_LENGTH = 40
"""Spark and Kubeflow append to an application's name (``-<suffix>-driver-svc``), and a Service's name ends at 63."""

QUOTES = "'`\""

LoadMode = Literal["append", "overwrite", "overwrite-partitions"]


class TableRequest(Frozen):
    """What a program is to do with one table."""

    table: str

    def arguments(self, namespace: str) -> list[str]:
        """The program's command line."""
        return [self.table, "--namespace", namespace]


class LoadRequest(TableRequest):
    """``colocation load``: read ``path``, or what the format's options (``key=value``) say, and load the rows."""

    path: str | None = None
    format: str = "parquet"
    options: tuple[str, ...] = ()
    select: str | None = None
    mode: LoadMode = "append"

    def arguments(self, namespace: str) -> list[str]:
        words = [*super().arguments(namespace), *([] if self.path is None else ["--from", self.path])]
        words += ["--format", self.format, "--mode", self.mode, *(f"--option={option}" for option in self.options)]
        return [*words, "--select", *split_expressions(self.select)] if self.select else words


class CompactRequest(TableRequest):
    """``colocation compact``: merge a table's files; ``partitions`` as folders are named, none = all."""

    partitions: tuple[str, ...] = ()

    def arguments(self, namespace: str) -> list[str]:
        return [*super().arguments(namespace), *(f"--partition={partition}" for partition in self.partitions)]


class DropPartitionsRequest(CompactRequest):
    """``colocation drop-partitions``: the partitions go with all their rows."""


class SqlRequest(Frozen):
    """``colocation sql``: run one statement over the namespace's tables."""

    statement: str
    explain: bool = False
    snapshots: dict[str, int] = Field(default_factory=dict)
    conf: dict[str, str] = Field(default_factory=dict)

    def arguments(self, namespace: str) -> list[str]:
        """The program's command line."""
        words = ["--namespace", namespace, *(["--explain"] if self.explain else [])]
        words += [f"--snapshot={table}={snapshot}" for table, snapshot in self.snapshots.items()]
        # After "--" nothing is an option: a statement may begin with a comment.
        return [*words, "--", self.statement]


def split_expressions(text: str) -> list[str]:
    """A select list as its expressions: split at commas that are in no bracket and in no quotes.

    Raises:
        ManifestError: an expression is empty, a bracket or a quote is left open.
    """
    depth, quote, parts = 0, "", [""]
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in QUOTES:
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += character
    expressions = [part.strip() for part in parts]
    if depth or quote or not all(expressions):
        raise ManifestError(f"--select {text!r} is no list of expressions: one is empty, or a bracket or quote is open")
    return expressions


class Program(NamedTuple):
    """A file in the image, how its applications' names begin, and how many executors it has work for."""

    file: str
    name: str
    most_executors: int | None = None


PROGRAMS: Mapping[type[TableRequest], Program] = {
    LoadRequest: Program("load.py", "load"),
    CompactRequest: Program("compact.py", "compact"),
    DropPartitionsRequest: Program("drop_partitions.py", "drop-partitions", most_executors=1),  # its driver does it all
}


def table_application(request: TableRequest, group: GroupView, base: Mapping[str, Any] | None = None) -> Json:
    """The SparkApplication of a request, on top of ``base`` (image, accounts, volumes, resources, configuration).

    Raises:
        ManifestError: ``base`` is no SparkApplication, or names a program of its own.
    """
    program = PROGRAMS[type(request)]
    arguments = request.arguments(group.namespace)
    application = _job(program.file, f"{program.name}-{request.table}", arguments, group, base)
    if program.most_executors:
        application["spec"]["executor"]["instances"] = program.most_executors
    return application


def sql_application(request: SqlRequest, group: GroupView, base: Mapping[str, Any] | None = None) -> Json:
    """The SparkApplication of a statement, on top of ``base``.

    Raises:
        ManifestError: ``base`` is no SparkApplication, or names a program of its own.
    """
    application = _job("sql.py", "sql", request.arguments(group.namespace), group, base)
    spec = application["spec"]
    spec["sparkConf"] = {**require_mapping(spec.get("sparkConf"), "spec.sparkConf"), **request.conf}
    return application


def _job(program: str, name: str, arguments: Sequence[str], group: GroupView, base: Mapping[str, Any] | None) -> Json:
    application = _checked_base(base)
    metadata = application.setdefault("metadata", {})
    metadata.setdefault("namespace", group.namespace)
    metadata["labels"] = {**(metadata.get("labels") or {}), **group.labels}
    if not metadata.get("name"):
        metadata["generateName"] = f"{_object_name(name)}-"
    spec = application["spec"]
    for field, value in (("type", "Python"), ("mode", "cluster"), ("sparkVersion", DEFAULT_SPARK_VERSION)):
        spec.setdefault(field, value)
    spec["mainApplicationFile"] = f"{JOBS_DIRECTORY}/{program}"
    spec["arguments"] = list(arguments)
    spec.setdefault("restartPolicy", {"type": "Never"})
    driver = spec["driver"] = require_mapping(spec.get("driver"), "spec.driver")
    driver.setdefault("serviceAccount", DEFAULT_SERVICE_ACCOUNT)
    executor = spec["executor"] = require_mapping(spec.get("executor"), "spec.executor")
    executor.setdefault("instances", len(group.nodes) or DEFAULT_EXECUTORS)
    return application


def _checked_base(base: Mapping[str, Any] | None) -> Json:
    if base is None:
        return {"apiVersion": KUBEFLOW.api_version, "kind": KUBEFLOW.kind, "spec": {}}
    if (base.get("kind"), base.get("apiVersion")) != (KUBEFLOW.kind, KUBEFLOW.api_version):
        raise ManifestError(
            f"the base application is kind {base.get('kind')!r}, apiVersion {base.get('apiVersion')!r}; "
            f"allowed: {KUBEFLOW.kind}, {KUBEFLOW.api_version}"
        )
    application = copy.deepcopy(dict(base))
    application["metadata"] = require_mapping(application.get("metadata"), "metadata")
    application["spec"] = require_mapping(application.get("spec"), "spec")
    program = application["spec"].get("mainApplicationFile")
    if program is not None and not str(program).startswith(JOBS_DIRECTORY):
        raise ManifestError(
            f"spec.mainApplicationFile of the base application is {program!r}; leave it out, "
            "the command names its own program"
        )
    return application


def _object_name(text: str) -> str:
    """Text as the beginning of an object's name: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:MAX_NAME_LENGTH]
