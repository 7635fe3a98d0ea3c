"""The configuration that a session needs to read and join tables of colocation groups, and names in SQL text.

User-facing settings begin with ``spark.colocation.``; the catalog turns them into the file system's ``fs.coloc.*``,
which Spark sends to executors with each plan.
"""

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from colocation.manifests.spark_pods import LISTS, RECIPE, next_to
from colocation.model.names import CA_PATH, DEFAULT_DATA_ROOT, TOKEN_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "colocation"
"""The ColocationCatalog of every session that is configured here, by the key ``spark.sql.catalog.colocation``."""
NAMESPACE = "spark.colocation.namespace"
DATA_ROOT = "spark.colocation.dataRoot"
TOKEN_FILE = "spark.colocation.tokenFile"
CA_FILE = "spark.colocation.caFile"
RETRY_SECONDS = "spark.colocation.retrySeconds"

DEFAULT_RETRY_SECONDS = 90
"""An agent's pod is replaced within it, its image pulled and its first scan done."""

JARS = "spark.jars"
JAR_NAME = "colocation-spark.jar"


class JarMissing(Exception):
    """The installed package holds no jar of the ``coloc://`` file system."""


def jar_path() -> Path:
    """The jar of the ``coloc://`` file system, which travels in this package.

    Raises:
        JarMissing: a checkout in which it was not built yet.
    """
    path = Path(str(resources.files("colocation.spark"))) / "jars" / JAR_NAME
    if not path.is_file():
        raise JarMissing(f"{path} is missing; in a checkout build it with scripts/build-jar")
    return path


def spark_conf(
    namespace: str | None = None,
    data_root: str | None = None,
    token_file: str | None = None,
    ca_file: str | None = None,
) -> dict[str, str]:
    """All configuration of a session, as ``key: value``. What is not given stays as ``spark-defaults.conf`` has it.

    Args:
        namespace: the Kubernetes namespace whose tables are meant when none is given.
        data_root: where executors have the node's data root mounted; default ``/var/lib/colocation``.
        token_file: the executors' and driver's ServiceAccount token for the agents.
        ca_file: the agents' CA, PEM.
    """
    given = {NAMESPACE: namespace, DATA_ROOT: data_root, TOKEN_FILE: token_file, CA_FILE: ca_file}
    return {
        **RECIPE,
        JARS: str(jar_path()),
        **{key: value for key, value in given.items() if value is not None},
    }


def configure(builder: "SparkSession.Builder", **settings: str) -> "SparkSession.Builder":
    """``SparkSession.builder`` with ``spark_conf(**settings)``; call it before anything has started a session.

    The application's own tuning stays, and its lists (jars, plugins, extensions) get ours.
    """
    given = {**_submitted(), **{key: str(value) for key, value in builder._options.items()}}
    for key, value in next_to(given, spark_conf(**settings), (*LISTS, JARS)).items():
        builder = builder.config(key, value)
    return builder


def _submitted() -> dict[str, str]:
    """What ``spark-submit`` was given; nothing where Python starts the JVM, which reads ``spark-defaults.conf``."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


@dataclass(frozen=True)
class SessionSettings:
    """The ``spark.colocation.*`` values of one session, as they stand now.

    Attributes:
        retry_seconds: how long loads and remote reads try an agent that does not answer.
    """

    namespace: str
    data_root: str
    token_file: str
    ca_file: str
    retry_seconds: int

    @classmethod
    def of(cls, spark: "SparkSession") -> "SessionSettings":
        """Read them from the session.

        Raises:
            ValueError: a value that is not allowed.
        """

        def value(key: str, default: str) -> str:
            return spark.conf.get(key, default) or default

        retry_seconds = value(RETRY_SECONDS, str(DEFAULT_RETRY_SECONDS))
        if not retry_seconds.isdecimal():
            raise ValueError(f"{RETRY_SECONDS}={retry_seconds!r}; allowed: whole seconds, 0 or more")
        return cls(
            namespace=value(NAMESPACE, ""),
            data_root=value(DATA_ROOT, DEFAULT_DATA_ROOT),
            token_file=value(TOKEN_FILE, TOKEN_PATH),
            ca_file=value(CA_FILE, CA_PATH),
            retry_seconds=int(retry_seconds),
        )

    def namespace_or(self, given: str | None) -> str:
        """The namespace to work in.

        Raises:
            ValueError: neither given nor configured.
        """
        namespace = given or self.namespace
        if not namespace:
            raise ValueError(f"no namespace: pass namespace=… or set {NAMESPACE}")
        return namespace


def quote(name: str) -> str:
    """A name as Spark SQL takes it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def qualified(*parts: str) -> str:
    """A name of several parts, e.g. catalog, namespace and table."""
    return ".".join(map(quote, parts))


def literal(text: str) -> str:
    """A text as Spark SQL takes it whatever is in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
