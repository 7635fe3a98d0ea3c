"""Rules by which a reader decides whether a group's tables can be joined without a shuffle. Pure.

Freshness: a verdict of the operator (``status.stable``) holds only while the operator is alive. A reader looks at the
operator's last sign of life: its Lease or, without rights on that, the key ``operator.json`` of the group's ConfigMap.
Once that is older than its duration the verdict is *unknown*: the group counts as not stable, reason
``OperatorSilent``. The operator's clock wrote the time, and the API server's clock judges it; they may differ by
``ALLOWED_SKEW_SECONDS``.

Liveness: files are immutable and readers go to any replica, so a bucketed plan is right and shuffle-free as long as
every bucket has a live replica. A replica counts as live on a node of the bucket's row whose agent is ready, unless the
status reports it as not complete there.

Parallelism: where files are small, or not sorted by the bucket key, a table is scanned by one task per bucket, so an
application with more cores than that leaves some idle.

Java decides the same (``ReadDecision.java``, ``SignOfLife.java``).
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from pydantic import Field, ValidationError

from .base import Frozen, Observed, parse_time
from .conditions import Reason
from .group import ColocationGroupStatus
from .names import LEASE_NAME
from .wording import listed

SIGN_OF_LIFE_KEY = "operator.json"
"""Of the ConfigMap ``<group>-spark``."""
ALLOWED_SKEW_SECONDS = 20
MAX_VALID_SECONDS = 10**7
"""Of a sign in a ConfigMap, which an operator of very many groups renews rarely; some 115 days."""


class SignOfLife(Observed):
    """``operator.json`` in each group's ConfigMap: when the operator was last alive; its JSON is ``to_json_dict()``."""

    renew_time: str = Field(description="When the operator last said that it lives; RFC 3339.")
    valid_seconds: float = Field(gt=0, le=MAX_VALID_SECONDS, description="So long after that time its verdicts hold.")
    lease_namespace: str = Field("", description="Where its Lease is, which is renewed more often than this.")
    lease_name: str = LEASE_NAME


class Freshness(Frozen):
    """Whether the operator's verdicts hold now. ``message``: since when not, in words; empty = they hold."""

    message: str = ""

    @property
    def is_current(self) -> bool:
        """Whether they hold."""
        return not self.message

    @property
    def explanation(self) -> str:
        """``OperatorSilent: <message>``; empty when they hold."""
        return f"{Reason.OPERATOR_SILENT}: {self.message}" if self.message else ""


CURRENT = Freshness()


def read_sign_of_life(data: Mapping[str, str]) -> SignOfLife | None:
    """The sign of life in a ConfigMap's data; None when it has none: an older operator's.

    Raises:
        ValueError: it has one that cannot be read.
    """
    text = data.get(SIGN_OF_LIFE_KEY)
    if text is None:
        return None
    try:
        return SignOfLife.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(f"{SIGN_OF_LIFE_KEY} of the group's ConfigMap cannot be read: {text[:200]!r}") from error


def judge_freshness(renew_time: str, valid_seconds: float, now: datetime, witness: str) -> Freshness:
    """Whether verdicts of an operator that last gave a sign of life at ``renew_time`` hold at ``now``.

    Args:
        renew_time: as it was written, RFC 3339.
        valid_seconds: how long they hold after it.
        now: the time, with a zone; the API server's own where it is known.
        witness: what was read, for the message.
    """
    renewed_at = parse_time(renew_time)
    if renewed_at is None:
        message = f"{witness} does not say when the operator was last alive: {renew_time!r} is not a time"
        return Freshness(message=message)
    ahead_seconds = (renewed_at - now).total_seconds()
    if ahead_seconds > ALLOWED_SKEW_SECONDS:
        return Freshness(
            message=f"{witness} was renewed at {renew_time}, which is in the future by more than the allowed "
            f"{ALLOWED_SKEW_SECONDS} s: correct the clocks of the API servers' nodes"
        )
    if now - renewed_at > timedelta(seconds=valid_seconds + ALLOWED_SKEW_SECONDS):
        return Freshness(
            message=f"the operator has given no sign of life since {renew_time} ({witness}); what it reported on "
            "the group may be out of date"
        )
    return CURRENT


MAX_NAMED_BUCKETS = 3
COMPLETE = "complete"


class Liveness(Frozen):
    """``is_whole``: every bucket has a live replica. ``message``: which have none, e.g. ``NoLiveReplica: bucket 3``;
    empty when all have one, or when the group's own reason is enough.
    """

    is_whole: bool = False
    message: str = ""


def liveness(status: ColocationGroupStatus, ready: Collection[str]) -> Liveness:
    """Whether every bucket of the group has a live replica.

    A group that the operator has not judged, that has no map, or that was marked unstable by hand is not whole: its
    replicas are not known, or an administrator does not want them used.

    Args:
        status: of the group, from an operator whose verdict holds.
        ready: nodes whose agents are ready.
    """
    rows = status.backends_per_bucket_seq
    if status.stable is None or not rows or status.reason == Reason.MARKED_UNSTABLE:
        return Liveness()
    dead = dead_buckets(status, ready)
    return Liveness(message=f"{Reason.NO_LIVE_REPLICA}: {_listed(dead)}") if dead else Liveness(is_whole=True)


def dead_buckets(status: ColocationGroupStatus, ready: Collection[str]) -> list[int]:
    """The buckets of the group's map that have no live replica; see ``liveness``."""
    reported = {one.bucket: one.replicas for one in status.unstable_buckets}
    return [
        bucket
        for bucket, row in enumerate(status.backends_per_bucket_seq or ())
        if not any(node in ready and reported.get(bucket, {}).get(node, COMPLETE) == COMPLETE for node in row)
    ]


def _listed(buckets: list[int]) -> str:
    """``bucket 3``, ``buckets 0, 3, 5``, or ``buckets 0, 1, 2 and 7 more``."""
    return f"bucket{'' if len(buckets) == 1 else 's'} {listed(buckets, MAX_NAMED_BUCKETS)}"


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
BLANKS = "".join(map(chr, range(0x21)))
"""Around a value, as Java and Spark trim them."""


def configured_cores(conf: Mapping[str, object]) -> int:
    """The cores that an application's executors have together, by its configuration; 0 = not known.

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
    return str(conf.get(key, "")).strip(BLANKS)


def _whole(text: str, default: int) -> int:
    """A number as it was given; 0 for what is no number."""
    if not text:
        return default
    return int(text) if text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS else 0


def few_buckets(group: str, buckets: int, cores: int) -> str:
    """A message where a group has fewer buckets than the application has cores; empty otherwise.

    Args:
        group: ``<namespace>/<name>``.
        buckets: of the group.
        cores: of the application; 0 = not known.
    """
    if buckets >= cores:
        return ""
    return (
        f"group {group} has {buckets} buckets, the application {cores} cores: only large files that are sorted by the "
        f"bucket key are read by more than {buckets} tasks"
    )
