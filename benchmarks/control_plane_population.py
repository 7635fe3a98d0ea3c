"""Makes the benchmark's cluster on the API server: groups for the operator to place, or as an operator left them."""

import math
import time
import uuid
from collections.abc import Iterator

from benchmarks import control_plane_objects as objects
from benchmarks.apiserver import ApiServer
from benchmarks.control_plane_objects import SYSTEM, ClusterSize, Json
from benchmarks.etcd_bulk import Etcd
from benchmarks.fake_agents import FakeAgents
from benchmarks.group_watch import GROUPS_PATH
from colocation.model.names import table_directory

TABLES_PATH = "/apis/colocation.dev/v1alpha1/colocatedtables"
HEARTBEAT_SECONDS = 300
"""Between two writes of a node's status by a kubelet that has nothing new to tell."""


def object_path(namespace: str, plural: str, name: str = "", subresource: str = "") -> str:
    """Of our kinds."""
    parts = ["/apis/colocation.dev/v1alpha1/namespaces", namespace, plural, name, subresource]
    return "/".join(part for part in parts if part)


def addresses(size: ClusterSize) -> dict[str, str]:
    """Node -> a loopback address of its own."""
    return {name: objects.address(number) for number, name in enumerate(size.node_names)}


def make_namespaces(server: ApiServer, size: ClusterSize) -> dict[str, str]:
    """Name -> uid."""
    names = (SYSTEM, *size.namespaces)
    made = server.request_all(("POST", "/api/v1/namespaces", {"metadata": {"name": name}}) for name in names)
    return {body["metadata"]["name"]: body["metadata"]["uid"] for body in made}


def make_nodes(server: ApiServer, size: ClusterSize, is_placed: bool) -> None:
    """Nodes that are ready, each with the pod of its agent, and with the labels of groups that are placed already."""
    labels = objects.labels_by_node(size) if is_placed else {}
    server.request_all(
        ("POST", "/api/v1/nodes", objects.node_body(name, labels.get(name))) for name in size.node_names
    )
    heartbeats(server, size.node_names)
    path = f"/api/v1/namespaces/{SYSTEM}/pods"
    server.request_all(("POST", path, objects.pod_body(name)) for name in size.node_names)
    server.request_all(
        ("PATCH", f"{path}/agent-{name}/status", objects.pod_status(number))
        for number, name in enumerate(size.node_names)
    )


def heartbeats(server: ApiServer, nodes: list[str]) -> None:
    """What kubelets write when nothing has changed."""
    server.request_all(("PATCH", f"/api/v1/nodes/{name}/status", objects.node_status()) for name in nodes)


def heartbeats_for(server: ApiServer, size: ClusterSize, seconds: float) -> None:
    """All nodes' heartbeats that fall into this time, evenly spread over it; returns when it is over."""
    started, steps = time.monotonic(), max(1, int(seconds))
    nodes = size.node_names[: math.ceil(size.nodes * seconds / HEARTBEAT_SECONDS)]
    for step in range(steps):
        heartbeats(server, nodes[step::steps])
        time.sleep(max(0.0, started + (step + 1) * seconds / steps - time.monotonic()))


def make_empty_groups(server: ApiServer, size: ClusterSize) -> None:
    """Groups and tables that no operator has seen yet."""
    server.request_all(
        ("POST", object_path(namespace, "colocationgroups"), objects.group_body(namespace, name))
        for namespace, name in size.group_keys
    )
    server.request_all(
        ("POST", object_path(namespace, "colocatedtables"), objects.table_body(namespace, table, name))
        for number, (namespace, name) in enumerate(size.group_keys)
        for table in size.tables_of(number)
    )


def load_all(server: ApiServer, agents: FakeAgents) -> None:
    """The first load of each table: its files are placed by its group's map, then it is committed."""
    rows = {
        (group["metadata"]["namespace"], group["metadata"]["name"]): group["status"]["backendsPerBucketSeq"]
        for group in server.request("GET", GROUPS_PATH)["items"]
    }
    tables = server.request("GET", TABLES_PATH)["items"]
    agents.hold(
        (
            table["metadata"]["namespace"],
            table_directory(table["metadata"]["name"], table["metadata"]["uid"]),
            rows[table["metadata"]["namespace"], table["spec"]["colocateWith"]],
        )
        for table in tables
    )
    server.request_all(commit(table["metadata"], 1) for table in tables)


def commit(table: Json, snapshot_id: int) -> tuple[str, str, Json]:
    """The request by which a load commits; the snapshot before stays readable. ``table``: its metadata."""
    status: Json = {"snapshot": objects.snapshot_of_load(table["uid"], snapshot_id)}
    if snapshot_id > 1:
        status["history"] = [objects.snapshot_of_load(table["uid"], snapshot_id - 1)]
    path = object_path(table["namespace"], "colocatedtables", table["name"], "status")
    return "PATCH", path, {"status": status}


def forget_verdicts(server: ApiServer, size: ClusterSize) -> None:
    """Remove an operator's verdicts from the groups' statuses; maps and members stay."""
    nothing: Json = {"status": {"stable": None, "observedGeneration": None, "conditions": []}}
    server.request_all(
        ("PATCH", object_path(namespace, "colocationgroups", name, "status"), nothing)
        for namespace, name in size.group_keys
    )


def make_settled_groups(server: ApiServer, agents: FakeAgents, size: ClusterSize, namespaces: dict[str, str]) -> None:
    """Groups with maps and loaded tables, as an earlier operator left them."""
    uids = _make_groups(server, size)
    first, *others = _tables(size, uids, namespaces)
    made = [(first[0], _make_table(server, *first))]
    etcd = Etcd(server.plane.etcd_url)
    stored = etcd.get(_key_of(made[0][1]["metadata"]))
    made += [(one[0], _another_table(stored, *one)) for one in others]
    etcd.put_all((_key_of(body["metadata"]), body) for _, body in made[1:])
    rows = {key: size.rows_of(number) for number, key in enumerate(size.group_keys)}
    agents.hold(
        (body["metadata"]["namespace"], table_directory(body["metadata"]["name"], body["metadata"]["uid"]), rows[key])
        for key, body in made
    )


def _make_groups(server: ApiServer, size: ClusterSize) -> list[str]:
    """Their uids."""
    made = server.request_all(
        ("POST", object_path(namespace, "colocationgroups"), objects.group_body(namespace, name))
        for namespace, name in size.group_keys
    )
    server.request_all(
        ("PATCH", object_path(namespace, "colocationgroups", name, "status"), objects.placed_status(size, number))
        for number, (namespace, name) in enumerate(size.group_keys)
    )
    return [body["metadata"]["uid"] for body in made]


GroupOfTable = tuple[tuple[str, str], str, str]
"""(group's key, its id, table's name)."""


def _tables(size: ClusterSize, uids: list[str], namespaces: dict[str, str]) -> Iterator[GroupOfTable]:
    for number, (key, uid) in enumerate(zip(size.group_keys, uids, strict=True)):
        group_id = f"{namespaces[key[0]][:8]}.{int(uid.replace('-', '')[:8], 16)}"
        for table in size.tables_of(number):
            yield key, group_id, table


def _make_table(server: ApiServer, group: tuple[str, str], group_id: str, name: str) -> Json:
    """A table as the API server makes it."""
    path = object_path(group[0], "colocatedtables")
    body = server.request("POST", path, objects.table_body(group[0], name, group[1]))
    status = _status(body["metadata"]["uid"], group, group_id)
    return server.request("PATCH", f"{path}/{name}/status", {"status": status})


def _another_table(stored: Json, group: tuple[str, str], group_id: str, name: str) -> Json:
    """The same with another name, in another group."""
    uid = str(uuid.uuid4())
    return {
        **stored,
        "metadata": {**stored["metadata"], "namespace": group[0], "name": name, "uid": uid},
        "spec": {**stored["spec"], "colocateWith": group[1]},
        "status": {**stored["status"], **_status(uid, group, group_id)},
    }


def _status(uid: str, group: tuple[str, str], group_id: str) -> Json:
    return {**objects.accepted_status(uid, group[1])["status"], "groupId": group_id}


def _key_of(metadata: Json) -> str:
    return f"/registry/colocation.dev/colocatedtables/{metadata['namespace']}/{metadata['name']}"
