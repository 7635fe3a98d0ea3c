"""Our own Spark programs as SparkApplications: load a table, compact it, drop its partitions, run a statement.

The programs are in the Spark image under /opt/colocation/jobs. They print their result as one line that begins with
``COLOCATION_RESULT``; the rows of a statement are not printed, but fetched by the command that asked for them.

An application is for the operator of its base, Kubeflow's or Apache's; without a base it is for Kubeflow's.
"""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field

from ..model.base import Frozen
from ..model.changes import ChangedTable
from . import apache
from .group_view import GroupView
from .manifest import APACHE, KUBEFLOW, ApplicationKind, Json, ManifestError, require_mapping
from .spark_conf import DRIVER_ACCOUNT, DYNAMIC_ALLOCATION

JOBS_DIRECTORY = "local:///opt/colocation/jobs"
DEFAULT_SPARK_VERSION = "4.1.4"
DEFAULT_SERVICE_ACCOUNT = "spark"
DEFAULT_EXECUTORS = 2
DRIVER_REQUEST = "500m"
"""Of a processor, unless the base gives the driver's cores: nodes of two then have room for driver and executor."""
DRIVER_CORES, DRIVER_REQUEST_CORES = "spark.driver.cores", "spark.kubernetes.driver.request.cores"
INSTANCES = "spark.executor.instances"
MAX_NAME_LENGTH = 40
"""Spark and Kubeflow append to an application's name (``-<suffix>-driver-svc``), and a Service's name ends at 63."""

QUOTES = "'`\""

LoadMode = Literal["append", "overwrite", "overwrite-partitions"]


class TableRequest(Frozen):
    """A task of a program on one table."""

    table: str

    def arguments(self, namespace: str) -> list[str]:
        """The program's command line."""
        return [self.table, "--namespace", namespace]

    def check(self, table: ChangedTable) -> None:
        """Refuse what the table cannot be asked for, as far as its objects tell; the program decides the rest.

        Raises:
            ValueError: with what is allowed.
        """


class LoadRequest(TableRequest):
    """``colocation load``: read ``path``, or what the format's options (``key=value``) say, and load the rows."""

    path: str | None = None
    format: str = "parquet"
    options: tuple[str, ...] = ()
    select: str | None = None
    mode: LoadMode = "append"
    key: str | None = None

    def arguments(self, namespace: str) -> list[str]:
        words = [*super().arguments(namespace), *([] if self.path is None else ["--from", self.path])]
        words += ["--format", self.format, "--mode", self.mode, *(f"--option={option}" for option in self.options)]
        words += [f"--idempotency-key={self.key}"] if self.key else []
        return [*words, "--select", *split_expressions(self.select)] if self.select else words


class CompactRequest(TableRequest):
    """``colocation compact``: merge a table's files; ``partitions`` as folders are named, none = all."""

    partitions: tuple[str, ...] = ()

    def arguments(self, namespace: str) -> list[str]:
        return [*super().arguments(namespace), *(f"--partition={partition}" for partition in self.partitions)]

    def check(self, table: ChangedTable) -> None:
        table.check_partitions(self.partitions)


class DropPartitionsRequest(CompactRequest):
    """``colocation drop-partitions``: drop partitions with all their rows."""


class RebucketRequest(TableRequest):
    """``colocation rebucket``: write the rows again for another number of buckets."""

    buckets: int

    def arguments(self, namespace: str) -> list[str]:
        return [*super().arguments(namespace), "--buckets", str(self.buckets)]

    def check(self, table: ChangedTable) -> None:
        table.check_buckets(self.buckets)


class RollBackRequest(TableRequest):
    """``colocation roll-back``: make the rows of an older snapshot the table's again."""

    snapshot_id: int

    def arguments(self, namespace: str) -> list[str]:
        return [*super().arguments(namespace), "--to", str(self.snapshot_id)]

    def check(self, table: ChangedTable) -> None:
        table.check_snapshot(self.snapshot_id)


class SqlRequest(Frozen):
    """``colocation sql``: run one statement over the namespace's tables."""

    statement: str
    explain: bool = False
    reader: str = Field(description="SHA-256 of the token with which the rows may be fetched, hexadecimal.")

    def arguments(self, namespace: str) -> list[str]:
        """The program's command line."""
        words = ["--namespace", namespace, "--reader", self.reader, *(["--explain"] if self.explain else [])]
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
        raise ManifestError(f"--select {text!r} is not a list of expressions: one is empty, or a bracket or quote open")
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
    RebucketRequest: Program("rebucket.py", "rebucket"),
    RollBackRequest: Program("roll_back.py", "roll-back", most_executors=1),
}


def table_application(request: TableRequest, group: GroupView, base: Mapping[str, Any] | None = None) -> Json:
    """The SparkApplication of a request, on top of ``base`` (image, accounts, volumes, resources, configuration).

    Raises:
        ManifestError: ``base`` is no SparkApplication, or names a program of its own.
    """
    program = PROGRAMS[type(request)]
    arguments = request.arguments(group.namespace)
    application = _job(program.file, f"{program.name}-{request.table}", arguments, group, base or empty_base(KUBEFLOW))
    if program.most_executors:
        _flavour_of(application).set_executors(application["spec"], program.most_executors)
    return application


def sql_application(request: SqlRequest, group: GroupView, base: Mapping[str, Any] | None = None) -> Json:
    """The SparkApplication of a statement, on top of ``base``.

    Raises:
        ManifestError: ``base`` is no SparkApplication, or names a program of its own.
    """
    return _job("sql.py", "sql", request.arguments(group.namespace), group, base or empty_base(KUBEFLOW))


def empty_base(kind: ApplicationKind) -> Json:
    """An empty base application."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {}}


def _job(program: str, name: str, arguments: Sequence[str], group: GroupView, base: Mapping[str, Any]) -> Json:
    application = _checked_base(base)
    metadata = application.setdefault("metadata", {})
    metadata.setdefault("namespace", group.namespace)
    metadata["labels"] = {**(metadata.get("labels") or {}), **group.labels}
    if not metadata.get("name"):
        metadata["generateName"] = f"{_object_name(name)}-"
    executors = len(group.nodes) or DEFAULT_EXECUTORS
    _flavour_of(application).complete(application["spec"], f"{JOBS_DIRECTORY}/{program}", arguments, executors)
    return application


def _checked_base(base: Mapping[str, Any]) -> Json:
    if base.get("kind") != KUBEFLOW.kind or base.get("apiVersion") not in FLAVOURS:
        raise ManifestError(
            f"the base application is kind {base.get('kind')!r}, apiVersion {base.get('apiVersion')!r}; "
            f"allowed: {KUBEFLOW.kind}, {', '.join(FLAVOURS)}"
        )
    application = copy.deepcopy(dict(base))
    application["metadata"] = require_mapping(application.get("metadata"), "metadata")
    application["spec"] = require_mapping(application.get("spec"), "spec")
    for field in _flavour_of(application).program_fields:
        program = application["spec"].get(field)
        if program is not None and not str(program).startswith(JOBS_DIRECTORY):
            raise ManifestError(
                f"spec.{field} of the base application is {program!r}; leave it out, the command names its own program"
            )
    return application


class _Flavour(NamedTuple):
    """The fields of an operator's manifest for the program, its account, and the number of executors."""

    program_fields: tuple[str, ...]
    complete: Callable[[Json, str, Sequence[str], int], None]
    set_executors: Callable[[Json, int], None]


def _flavour_of(application: Mapping[str, Any]) -> _Flavour:
    return FLAVOURS[application["apiVersion"]]


def _complete_kubeflow(spec: Json, program: str, arguments: Sequence[str], executors: int) -> None:
    for field, value in (("type", "Python"), ("mode", "cluster"), ("sparkVersion", DEFAULT_SPARK_VERSION)):
        spec.setdefault(field, value)
    spec["mainApplicationFile"], spec["arguments"] = program, list(arguments)
    spec.setdefault("restartPolicy", {"type": "Never"})
    driver = spec["driver"] = require_mapping(spec.get("driver"), "spec.driver")
    driver.setdefault("serviceAccount", DEFAULT_SERVICE_ACCOUNT)
    if not ({"cores", "coreRequest"} & driver.keys() or _gives_driver_cores(spec.get("sparkConf") or {})):
        driver["coreRequest"] = DRIVER_REQUEST
    executor = spec["executor"] = require_mapping(spec.get("executor"), "spec.executor")
    configured = str((spec.get("sparkConf") or {}).get(INSTANCES, ""))
    executor.setdefault("instances", int(configured) if configured.isdigit() else executors)


def _gives_driver_cores(conf: Mapping[str, Any]) -> bool:
    return DRIVER_CORES in conf or DRIVER_REQUEST_CORES in conf


def _set_kubeflow_executors(spec: Json, executors: int) -> None:
    spec["executor"]["instances"] = executors


def _complete_apache(spec: Json, program: str, arguments: Sequence[str], executors: int) -> None:
    spec["pyFiles"], spec["driverArgs"] = program, list(arguments)
    versions = spec["runtimeVersions"] = require_mapping(spec.get("runtimeVersions"), "spec.runtimeVersions")
    versions.setdefault("sparkVersion", DEFAULT_SPARK_VERSION)
    conf = spec["sparkConf"] = require_mapping(spec.get("sparkConf"), "spec.sparkConf")
    conf.setdefault(DRIVER_ACCOUNT, DEFAULT_SERVICE_ACCOUNT)
    if not _gives_driver_cores(conf):
        conf[DRIVER_REQUEST_CORES] = DRIVER_REQUEST
    if conf.get(DYNAMIC_ALLOCATION) != "true":
        conf.setdefault(INSTANCES, str(executors))


def _set_apache_executors(spec: Json, executors: int) -> None:
    spec["sparkConf"][INSTANCES] = str(executors)


_KUBEFLOW = _Flavour(("mainApplicationFile",), _complete_kubeflow, _set_kubeflow_executors)
_APACHE = _Flavour(apache.PROGRAMS, _complete_apache, _set_apache_executors)
FLAVOURS = {KUBEFLOW.api_version: _KUBEFLOW, **{kind.api_version: _APACHE for kind in APACHE}}
"""By the base's apiVersion."""


def _object_name(text: str) -> str:
    """Text as the beginning of an object's name: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:MAX_NAME_LENGTH]
