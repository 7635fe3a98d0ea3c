"""Python's side of the rules that Java states, too; ``ContractTest`` and its kin check the same files."""

import hashlib
import json
from collections.abc import Callable
from datetime import datetime

import pytest

from colocation.model.base import parse_time
from colocation.model.changes import allowed_buckets, kept_snapshot, partition_column
from colocation.model.group import ColocationGroupStatus, namespace_refusal
from colocation.model.names import config_map_of, group_key, group_reference, private_group_name, table_directory
from colocation.model.query_line import QUERY_MARK, parse_query_line
from colocation.model.reader_rules import configured_cores, few_buckets, judge_freshness, liveness
from colocation.model.salvage import salvage
from colocation.model.schema_check import refused_change
from colocation.model.spark_types import canonical_type
from colocation.model.table import (
    ColocatedTableSpec,
    ColocatedTableStatus,
    Column,
    RecordedCommit,
    Retention,
    TableSnapshot,
    placing_group,
    retained_history,
)
from colocation.model.table_manifest import decode_manifest
from tests.contract.cases import Case, cases, rules, stored_manifest


def _time(text: str) -> datetime:
    time = parse_time(text)
    if time is None:
        raise ValueError(f"{text!r} is not a time")
    return time


def _shown(time: datetime) -> str:
    """As Java's ``Instant`` shows it, but for more than six digits of a second."""
    fraction = f"{time:%f}".rstrip("0")
    fraction = "." + fraction.ljust(3 if len(fraction) <= 3 else 6, "0") if fraction else ""
    return f"{time.isoformat(timespec='seconds').removesuffix('+00:00')}{fraction}Z"


def _names(case: Case) -> object:
    namespace, table, uid = case["namespace"], case["table"], case["uid"]
    group = group_key(namespace, case["colocateWith"])
    return {
        "directory": table_directory(table, uid),
        "privateGroup": private_group_name(table, uid),
        "group": "/".join(group),
        "configMap": config_map_of(namespace, group),
        "reference": group_reference(namespace, group),
    }


def _freshness(case: Case) -> str:
    return judge_freshness(case["renewTime"], case["validSeconds"], _time(case["now"]), "Lease x").message


def _liveness(case: Case) -> object:
    found = liveness(ColocationGroupStatus.model_validate(case["status"]), case["ready"])
    return {"isWhole": found.is_whole, "message": found.message}


def _kept_snapshot(case: Case) -> int:
    status, _ = salvage(ColocatedTableStatus, case["status"])
    return kept_snapshot("shop.orders", status, case["snapshot"]).id


def _columns(given: list[Case]) -> list[Column]:
    return [Column.model_validate(column) for column in given]


def _shown_columns(columns: tuple[Column, ...]) -> object:
    return [column.model_dump(by_alias=True, exclude={"comment"}) for column in columns]


def _spec(case: Case) -> object:
    spec = ColocatedTableSpec.model_validate(case["spec"], extra="ignore")
    group = placing_group("shop", spec, ColocatedTableStatus())
    return {
        "columns": _shown_columns(spec.columns),
        "bucketedBy": list(spec.bucketed_by),
        "partitionedBy": list(spec.partitioned_by),
        "sortedBy": list(spec.sorted_by or spec.bucketed_by),
        "group": f"{group[0]}/{group[1] or private_group_name('orders', '12345678-aaaa')}",
        "compaction": spec.compaction.to_json_dict(),
    }


def _status(case: Case) -> object:
    status, error = salvage(ColocatedTableStatus, case["status"])
    spec = ColocatedTableSpec.model_validate(
        {"colocateWith": "sales", "bucketedBy": ["k"], "columns": [{"name": "k", "type": "bigint"}]}
    )
    return {
        "isSound": not error,
        "snapshot": status.snapshot.id if status.snapshot else 0,
        "history": [one.id for one in status.history],
        "commits": [[one.writer, one.version, one.snapshot_id] for one in status.commits],
        "group": "/".join(placing_group("shop", spec, status)),
    }


def _snapshot(case: Case) -> object:
    snapshot = TableSnapshot.model_validate(case["snapshot"])
    committed_at = _shown(_time(snapshot.committed_at))
    changed = [
        snapshot.rows_inserted, snapshot.rows_updated, snapshot.rows_deleted, snapshot.files_added,
        snapshot.files_removed,
    ]  # fmt: skip
    shown = {"id": snapshot.id, "manifest": snapshot.manifest_sha256, "committedAt": committed_at}
    return shown if changed == [None] * len(changed) else {**shown, "changed": changed}


def _commit_record(case: Case) -> object:
    record = RecordedCommit.model_validate(case["record"])
    return [record.writer, record.version, record.snapshot_id]


def _retention(case: Case) -> object:
    snapshots = [
        TableSnapshot(id=1000 - index, manifest=f"sha256:{'0' * 64}", committed_at=time)
        for index, time in enumerate(case["committedAt"])
    ]
    retention = Retention.model_validate(case["retention"])
    return [one.id for one in retained_history(snapshots[0], snapshots[1:], retention, _time(case["now"]))]


def _schema_evolution(case: Case) -> str:
    return refused_change(_columns(case["stored"]), _columns(case["wanted"])) or ""


def _manifest(case: Case) -> object:
    stored = stored_manifest(case)
    manifest = decode_manifest(stored, hashlib.sha256(stored).hexdigest())
    return {
        "snapshotId": manifest.snapshot_id,
        "buckets": [manifest.buckets, manifest.table_buckets] if manifest.table_buckets else manifest.buckets,
        "columns": _shown_columns(manifest.columns),
        "bucketedBy": list(manifest.bucketed_by),
        "partitionedBy": list(manifest.partitioned_by),
        "sortedBy": list(manifest.sorted_by),
        "padded": manifest.padded,
        "files": sorted([file.path, file.bucket, file.bytes] for file in manifest.files),
    }


def _query_line(case: Case) -> object:
    """Read, and written again: Java gives the same line."""
    found = parse_query_line(f"26/11/27 10:00:00 INFO RecentQueries: {case['line']}")
    return found and QUERY_MARK + json.dumps(found.to_json_dict(), separators=(",", ":"), ensure_ascii=False)


RULES: dict[str, Callable[[Case], object]] = {
    "allowed-namespaces": lambda case: namespace_refusal(
        ("accounts", "sales"), case["allowedNamespaces"], case["namespace"]
    ),
    "commit-records": _commit_record,
    "configured-cores": lambda case: configured_cores(case["conf"]),
    "few-buckets": lambda case: few_buckets(case["group"], case["buckets"], case["cores"]),
    "freshness": _freshness,
    "kept-snapshots": _kept_snapshot,
    "liveness": _liveness,
    "manifests": _manifest,
    "names": _names,
    "new-buckets": lambda case: allowed_buckets("shop.orders", case["group"], case["buckets"]),
    "partition-columns": lambda case: partition_column(case["column"], case["partitionedBy"]),
    "query-lines": _query_line,
    "retention": _retention,
    "schema-evolution": _schema_evolution,
    "snapshots": _snapshot,
    "specs": _spec,
    "statuses": _status,
    "times": lambda case: _shown(_time(case["time"])),
    "types": lambda case: canonical_type(case["type"]),
}
"""What Python makes of a case; a ``ValueError`` where the rule refuses it."""


@pytest.mark.parametrize(
    ("rule", "case"),
    [pytest.param(rule, case, id=f"{rule}: {case['name']}") for rule in rules() for case in cases(rule)],
)
def test_a_rule_gives_what_its_case_expects(rule: str, case: Case) -> None:
    """Java's tests expect the same."""
    if "error" not in case:
        assert RULES[rule](case) == case["expected"]
        return
    with pytest.raises(ValueError) as refusal:
        RULES[rule](case)
    assert case["error"] in str(refusal.value)


@pytest.mark.parametrize("rule", rules())
def test_cases_have_names_of_their_own(rule: str) -> None:
    """A failure names one case."""
    names = [case["name"] for case in cases(rule)]
    assert names
    assert len(set(names)) == len(names)


def test_every_rule_is_checked() -> None:
    """No file of cases is left unread."""
    assert rules() == sorted(RULES)
