"""Whether an application has more cores than a group has buckets: a table is scanned by one task per bucket. Pure.

Java says the same (``Parallelism.java``).
"""

from collections.abc import Mapping

MASTER = "spark.master"
EXECUTOR_CORES = "spark.executor.cores"
EXECUTOR_INSTANCES = "spark.executor.instances"
DYNAMIC_ALLOCATION = "spark.dynamicAllocation.enabled"
MAX_EXECUTORS = "spark.dynamicAllocation.maxExecutors"
CORES_KEYS = (MASTER, EXECUTOR_CORES, EXECUTOR_INSTANCES, DYNAMIC_ALLOCATION, MAX_EXECUTORS)

KUBERNETES = "k8s"
DEFAULT_INSTANCES = 2
DEFAULT_CORES = 1
"""Spark's own, on Kubernetes."""
MAX_DIGITS = 7


def configured_cores(conf: Mapping[str, object]) -> int:
    """The cores that an application's executors have together, by its configuration; 0 = it does not say.

    Only on Kubernetes: elsewhere the cluster decides. With dynamic allocation: the most that it may get.
    """
    if not _text(conf, MASTER).startswith(KUBERNETES):
        return 0
    cores = _whole(_text(conf, EXECUTOR_CORES), DEFAULT_CORES)
    if _text(conf, DYNAMIC_ALLOCATION).lower() == "true":
        return cores * _whole(_text(conf, MAX_EXECUTORS), 0)
    return cores * _whole(_text(conf, EXECUTOR_INSTANCES), DEFAULT_INSTANCES)


def _text(conf: Mapping[str, object], key: str) -> str:
    """A value as text: manifests hold numbers, too."""
    return str(conf.get(key, "")).strip()


def _whole(text: str, default: int) -> int:
    """A number as it was given; what is no number says nothing."""
    if not text:
        return default
    return int(text) if text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS else 0


def few_buckets(group: str, buckets: int, cores: int) -> str:
    """What to say where a group has fewer buckets than the application has cores; empty otherwise.

    Args:
        group: ``<namespace>/<name>``.
        buckets: of the group.
        cores: of the application; 0 = not known.
    """
    if buckets >= cores:
        return ""
    return (
        f"group {group} has {buckets} buckets, the application {cores} cores: at most {buckets} tasks scan a table "
        "at once"
    )
