"""The CRDs on a real API server: an object that is wrong by itself is refused, with the way to mend it."""

import re

import pytest

from colocation.model.spark_types import canonical_type
from tests.contract.cases import cases

from .control_plane import ControlPlane
from .objects import COLUMNS, JsonObject, as_json, group, table

LONG_NAME = "a" * 64
WIDE = [{"name": f"c{number}", "type": "bigint"} for number in range(2000)]

ACCEPTED = [
    pytest.param(group(), id="group"),
    pytest.param(group(bucketKey=["LONG", "varchar(10)", "decimal(15, 2)", "Timestamp_NTZ"]), id="aliases of types"),
    pytest.param(group(bucketSequence=[["a", "b"], ["b", "a"]]), id="map set by hand"),
    pytest.param(group(bucketSequence=None, balancing={"maxBandwidthMiBPerSecond": None}), id="nulls"),
    pytest.param(group(relocation={"downToleranceSeconds": 0}), id="partly given defaults"),
    pytest.param(group(name="a" * 63), id="longest name of a group"),
    pytest.param(table(), id="table"),
    pytest.param(table(bucketedBy=["O_ORDERKEY"]), id="columns are compared without case"),
    pytest.param(
        table(columns=[*COLUMNS, {"name": "_day", "type": "date"}], partitionedBy=["_day"]), id="partitioned by _day"
    ),
    pytest.param(table(columns=WIDE, bucketedBy=["c1999"], partitionedBy=[]), id="2000 columns"),
    pytest.param(table(colocateWith="lake/sales.v2"), id="group of another namespace"),
    pytest.param(group(allowedNamespaces=["*", "lake-2"]), id="namespaces that a group lets in"),
    pytest.param(table(colocateWith="", buckets=8, replicas=2), id="table in no group"),
]

REFUSED = [
    pytest.param(group(buckets=0), "should be greater than or equal to 1", id="no buckets"),
    pytest.param(group(buckets=65537), "should be less than or equal to 65536", id="too many buckets"),
    pytest.param(group(replicas=8), "should be less than or equal to 7", id="too many replicas"),
    pytest.param(group(bucketKey=[]), "should have at least 1 items", id="empty bucket key"),
    pytest.param(
        group(bucketKey=["bigint", "array<int>"]),
        "bucketKey is [bigint, array<int>]; allowed are the Spark SQL types boolean, tinyint",
        id="key type that cannot be hashed",
    ),
    pytest.param(
        group(bucketSequence=[["a", "b"]]), "Invalid bucket num. expected: 2, actual: 1", id="map with too few buckets"
    ),
    pytest.param(
        group(bucketSequence=[["a", "b"], ["a"]]),
        "Invalid backend num per bucket. expected: 2, actual: [1]",
        id="map with too few replicas",
    ),
    pytest.param(group(bucketSequence=[["a", "a"], ["a", "b"]]), "Duplicate value", id="two replicas on one node"),
    pytest.param(group(deletionPolicy="Never"), 'supported values: "WithLastTable", "Retain"', id="deletion policy"),
    pytest.param(group(balancing={"maxBandwidthMiBPerSecond": 0}), "greater than 0", id="no bandwidth"),
    pytest.param(group(name=LONG_NAME), "the name has 64 characters; a ColocationGroup may have", id="long group name"),
    pytest.param(table(name=LONG_NAME), "the name has 64 characters; a ColocatedTable may have", id="long table name"),
    pytest.param(
        table(colocateWith="My_Group"), "colocateWith is My_Group; allowed: GROUP, or NAMESPACE/GROUP for one",
        id="name that no group can have",
    ),
    pytest.param(
        group(allowedNamespaces=["lake", "Shop"]), "allowedNamespaces has Shop; allowed: namespaces, in lower-case",
        id="name that no namespace can have",
    ),
    pytest.param(table(columns=[]), "should have at least 1 items", id="no columns"),
    pytest.param(table(columns=[*COLUMNS, COLUMNS[0]]), "Duplicate value", id="column named twice"),
    *(
        pytest.param(
            table(columns=[*COLUMNS, {"name": "a", "type": name}]),
            f"type {name} is no Spark SQL type; allowed are bigint, binary, boolean",
            id=f"no type of Spark's: {name}",
        )
        for name in ("varchar", "strng", "bigint unsigned", "int(11)", "varchar(max)", "varchar(9,2)", "char(9, 2)",
                     "decimal(15.2)", "list<int>")
    ),
    pytest.param(
        table(bucketedBy=["o_custkey"]),
        "bucketedBy is [o_custkey], and not all of these are in columns",
        id="bucketed by no column",
    ),
    pytest.param(table(partitionedBy=["o_year"]), "partitionedBy is [o_year], and not", id="partitioned by no column"),
    pytest.param(table(sortedBy=["o_year"]), "sortedBy is [o_year], and not all", id="sorted by no column"),
    pytest.param(
        table(bucketedBy=["O_Tags"]), "a column of these has a type that cannot be hashed", id="bucketed by an array"
    ),
    pytest.param(
        table(partitionedBy=["o_tags"]), "has a type whose values are no names of folders; not allowed are array",
        id="partitioned by an array",
    ),
    pytest.param(
        table(columns=[*COLUMNS, {"name": "o_raw", "type": "BINARY"}], partitionedBy=["o_raw"]),
        "partitionedBy is [o_raw], and a column of these has a type whose values are no", id="partitioned by bytes",
    ),
    pytest.param(
        table(columns=[*COLUMNS, {"name": ".day", "type": "date"}], partitionedBy=[".day"]),
        "partitionedBy is [.day], and a name of these begins with a dot; Spark passes over folders of such names",
        id="partitioned by a hidden name",
    ),
    pytest.param(
        table(columns=[*COLUMNS, {"name": "o_map", "type": "map<int,int>"}], sortedBy=["o_map"]),
        "sortedBy is [o_map], and a column of these has a type that cannot be sorted", id="sorted by a map",
    ),
    pytest.param(
        table(partitionedBy=["O_ORDERKEY"]), "a column may be in one of them", id="bucketed and partitioned by one"
    ),
    pytest.param(
        table(colocateWith=""), "colocateWith is empty, so no group gives the table", id="in no group, no buckets"
    ),
    pytest.param(table(bucketedBy=["o_orderkey", "o_orderkey"]), "Duplicate value", id="bucketed twice by one column"),
]


TYPES = [
    case["type"]
    for case in cases("types")
    if "a decimal needs" not in case.get("error", "")
    and case["name"] not in ("nothing but blanks in an array", "INTERVAL Year TO month", "a vertical tab")
]
"""The API server lets decimals pass that are too wide, and nested types without a content; it wants single blanks, and
knows no vertical tab."""


def test_types_agree_with_the_model(cluster: ControlPlane) -> None:
    """The API server refuses exactly the types of columns that the model does not know."""
    body = table(columns=[*COLUMNS, *({"name": f"c{number}", "type": name} for number, name in enumerate(TYPES))])
    refused = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=as_json(body)).stderr
    places = {int(place) - len(COLUMNS) for place in re.findall(r"spec\.columns\[(\d+)\]\.type", refused)}
    assert [TYPES[place] for place in sorted(places)] == [name for name in TYPES if not _is_type(name)]


def _is_type(name: str) -> bool:
    try:
        canonical_type(name)
    except ValueError:
        return False
    return True


CHANGES_ALLOWED = [
    pytest.param(table(), table(columns=[*COLUMNS, {"name": "new", "type": "int"}]), id="new column"),
    pytest.param(table(), table(colocateWith="other"), id="another group"),
    pytest.param(table(), table(buckets=8), id="buckets said later"),
    pytest.param(table(buckets=8, replicas=2), table(), id="buckets and replicas left to the group"),
    pytest.param(
        group(bucketSequence=[["a", "b"], ["b", "a"]], topologyKey="rack", allowedNamespaces=["lake"]), group(),
        id="optional fields of a group left out",
    ),
    pytest.param(group(), group(buckets=4, bucketKey=["int"], replicas=1), id="schema of a group without tables"),
]

CHANGES_REFUSED = [
    pytest.param(
        table(),
        table(bucketedBy=["o_orderdate"], partitionedBy=[]),
        "bucketedBy cannot change from [o_orderkey] to [o_orderdate]",
        id="bucket key",
    ),
    pytest.param(table(buckets=8), table(buckets=16), "buckets cannot become 16: files have another", id="buckets"),
    pytest.param(
        table(),
        table(columns=[{"name": "o_orderkey", "type": "int"}, *COLUMNS[1:]]),
        "the type of column o_orderkey cannot change from bigint to int",
        id="type of a column",
    ),
]


@pytest.mark.parametrize("body", ACCEPTED)
def test_good_objects_are_accepted(cluster: ControlPlane, body: JsonObject) -> None:
    """What the design allows passes admission."""
    result = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=as_json(body))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_bad_objects_are_refused(cluster: ControlPlane, body: JsonObject, message: str) -> None:
    """Each refusal names what was given and what is allowed."""
    result = cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=as_json(body))
    assert result.returncode != 0
    assert message in result.stderr


@pytest.mark.parametrize(("before", "after"), CHANGES_ALLOWED)
def test_changes_that_files_do_not_depend_on_are_allowed(
    cluster: ControlPlane, namespace: str, before: JsonObject, after: JsonObject
) -> None:
    """A table may grow columns and move between groups; a group without tables may still change its schema."""
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=as_json(before))
    result = cluster.kubectl("replace", "--namespace", namespace, "-f", "-", stdin=as_json(after))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("before", "after", "message"), CHANGES_REFUSED)
def test_changes_that_files_depend_on_are_refused(
    cluster: ControlPlane, namespace: str, before: JsonObject, after: JsonObject, message: str
) -> None:
    """Files are bucketed and typed as the table was; both values are named."""
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=as_json(before))
    result = cluster.kubectl("replace", "--namespace", namespace, "-f", "-", stdin=as_json(after))
    assert result.returncode != 0
    assert message in result.stderr


@pytest.mark.parametrize(("field", "value"), [("buckets", 4), ("bucketKey", ["int"])])
def test_schema_of_a_group_is_fixed_once_it_has_tables(
    cluster: ControlPlane, namespace: str, field: str, value: object
) -> None:
    """The operator counts the group's tables in the status; the rule reads it there."""
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=as_json(group()))
    status = '{"status": {"tableCount": 2}}'
    command = ["patch", "cg", "sales", "--namespace", namespace, "--type=merge", "-p"]
    assert cluster.kubectl(*command, status, "--subresource=status").returncode == 0
    refused = cluster.kubectl(*command, as_json({"spec": {field: value}}))
    assert refused.returncode != 0
    assert f"{field} cannot change once tables are in the group, and 2 are" in refused.stderr
    assert cluster.kubectl(*command, '{"spec": {"deletionPolicy": "Retain", "replicas": 3}}').returncode == 0


GROUP_STATUS = """{"status": {
  "groupId": "12345678.1", "distCols": "bigint, int", "tableCount": 2, "stable": false, "reason": "NodeNotReady",
  "nodeCount": 3, "clones": {"running": 1}}}"""
SNAPSHOT: JsonObject = {
    "id": 1, "manifest": f"sha256:{0:064x}", "committedAt": "2026-11-21T00:00:00Z", "partitions": 7, "files": 14,
    "rows": 100, "bytes": 4096,
}  # fmt: skip
TABLE_STATUS = as_json({"status": {"accepted": True, "snapshot": SNAPSHOT}})


@pytest.mark.parametrize(
    ("body", "status", "wide", "header", "row"),
    [
        pytest.param(
            group(), GROUP_STATUS, False,
            "NAME BUCKETS REPLICAS DISTCOLS TABLES STABLE REASON AGE",
            "sales 2 2 bigint, int 2 false NodeNotReady", id="groups",
        ),
        pytest.param(
            group(), GROUP_STATUS, True,
            "NAME BUCKETS REPLICAS DISTCOLS TABLES STABLE REASON AGE GROUPID NODES CLONES",
            "sales 2 2 bigint, int 2 false NodeNotReady", id="groups, wide",
        ),
        pytest.param(
            table(), TABLE_STATUS, False,
            "NAME GROUP ACCEPTED PARTITIONS ROWS BYTES AGE",
            "orders sales true 7 100 4096", id="tables",
        ),
    ],
)  # fmt: skip
def test_printer_columns(
    cluster: ControlPlane, namespace: str, body: JsonObject, status: str, wide: bool, header: str, row: str
) -> None:
    """`kubectl get` shows the design's columns, by short name and by category."""
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=as_json(body))
    short_name = "cg" if body["kind"] == "ColocationGroup" else "ct"
    name = body["metadata"]["name"]
    patch = ["patch", short_name, name, "--namespace", namespace, "--subresource=status", "--type=merge", "-p", status]
    assert cluster.kubectl(*patch).returncode == 0
    output = ["-o", "wide"] if wide else []
    lines = cluster.kubectl("get", short_name, "--namespace", namespace, *output).stdout.splitlines()
    assert lines[0].split() == header.split()
    assert lines[1].split()[: len(row.split())] == row.split()
    assert name in cluster.kubectl("get", "colocation", "--namespace", namespace).stdout


def test_explain_helps(cluster: ControlPlane) -> None:
    """`kubectl explain` describes every field of a spec."""
    for field in ("colocationgroup.spec", "colocationgroup.spec.balancing", "colocatedtable.spec"):
        result = cluster.kubectl("explain", field)
        fields = [line.split()[0] for line in result.stdout.splitlines() if "\t<" in line]
        described = [line for line in result.stdout.splitlines() if line.startswith("    ")]
        assert fields
        assert len(described) >= len(fields), result.stdout


def test_status_is_a_subresource(cluster: ControlPlane, namespace: str) -> None:
    """A user's `kubectl apply` cannot write what the operator reports."""
    body = {**group(), "status": {"stable": True}}
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=as_json(body))
    shown = cluster.kubectl("get", "cg", "sales", "--namespace", namespace, "-o", "jsonpath={.status}")
    assert shown.stdout == ""


def test_status_as_the_last_release_wrote_it_is_valid(cluster: ControlPlane, namespace: str) -> None:
    """Every field of it, also what only it wrote."""
    condition = {
        "type": "Ready", "status": "True", "reason": "Reconciled", "message": "group sales has a map",
        "lastTransitionTime": "2026-11-21T00:00:00Z", "observedGeneration": 1,
    }  # fmt: skip
    member = {
        "namespace": namespace, "name": "orders", "uid": "0", "snapshot": SNAPSHOT, "recycleAfterSeconds": 86400,
        "retention": {"seconds": 86400, "snapshots": 10}, "compaction": {"enabled": False, "maxFilesPerBucket": 8},
        "leaving": False,
    }  # fmt: skip
    dropped = {**member, "deletedAt": "2026-11-21T00:00:00Z", "purgeAt": "2026-11-22T00:00:00Z", "recoveryUids": []}
    of_table = {
        "observedGeneration": 1, "accepted": True, "group": "sales", "groupId": "12345678.1", "buckets": 2,
        "replicas": 2, "columns": COLUMNS, "snapshot": SNAPSHOT, "history": [{**SNAPSHOT, "id": 0}] * 100,
        "conditions": [condition],
    }  # fmt: skip
    of_group = {
        "observedGeneration": 1, "stable": True, "tables": ["orders"], "backendsPerBucketSeq": [["a", "b"]] * 2,
        "unstableBuckets": [{"bucket": 0, "reason": "NodeGone", "message": "", "since": None, "replicas": {}}],
        "members": [member], "recycled": [dropped], "deleteAfter": None, "conditions": [condition],
    }  # fmt: skip
    for body, status in ((group(), of_group), (table(), of_table)):
        cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=as_json(body))
        patched = patch_status(cluster, namespace, body, status)
        assert patched == "", patched


BAD_SNAPSHOTS = [
    pytest.param({"manifest": "x"}, "should match '^sha256:[0-9a-f]{64}$'", id="manifest"),
    pytest.param({"manifest": f"sha256:{0:063x}\n"}, "should match", id="manifest with a line end"),
    pytest.param({"committedAt": "soon"}, "should match", id="no time"),
    pytest.param({"committedAt": "2026-11-21T00:00:00"}, "should match", id="no zone"),
    pytest.param({"committedAt": "2026-02-31T00:00:00Z"}, "must be of type date-time", id="no day"),
    pytest.param({"id": -1}, "should be greater than or equal to 0", id="negative id"),
    pytest.param({"rows": 2**53}, "should be less than or equal to 9007199254740991", id="too many rows"),
]


@pytest.mark.parametrize(("change", "message"), BAD_SNAPSHOTS)
def test_bad_snapshot_is_refused(
    cluster: ControlPlane, namespace: str, change: JsonObject, message: str
) -> None:
    """Before the operator or any agent sees it; in the history as well."""
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=as_json(table()))
    assert patch_status(cluster, namespace, table(), {"snapshot": SNAPSHOT}) == ""
    field = next(iter(change))
    bad = {**SNAPSHOT, **change}
    for path, status in (("snapshot", {"snapshot": bad}), ("history[0]", {"history": [bad]})):
        objection = patch_status(cluster, namespace, table(), status)
        assert f"{path}.{field}: Invalid value" in objection  # Kubernetes 1.30 leaves "status." out
        assert message in objection


def test_endless_history_is_refused(cluster: ControlPlane, namespace: str) -> None:
    """As many entries as `spec.retention` may keep."""
    cluster.kubectl("create", "--namespace", namespace, "-f", "-", stdin=as_json(table()))
    assert "at most 100 items" in patch_status(cluster, namespace, table(), {"history": [SNAPSHOT] * 101})


def patch_status(cluster: ControlPlane, namespace: str, body: JsonObject, status: JsonObject) -> str:
    """The API server's objection to a merge patch of the status; empty when it is taken."""
    command = ["patch", body["kind"], body["metadata"]["name"], "--namespace", namespace, "--subresource=status"]
    return cluster.kubectl(*command, "--type=merge", "-p", as_json({"status": status})).stderr
