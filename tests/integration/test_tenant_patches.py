"""What a tenant writes into one table's status, against a real API server: others see nothing of it.

The admission policy is not there: these are the patches of anyone who may write a whole status.
"""

import os
import random
import re
import urllib.request
from collections.abc import Iterator

import pytest

from tests.support.waiting import until

from .control_plane import ControlPlane
from .installation import Installation, installed
from .objects import JsonObject, as_json, group, table

SHOP, BANK = "shop", "bank"
NAMESPACES = (SHOP, BANK)
SEED = int(os.environ.get("SEED", "1"))
ROUNDS = int(os.environ.get("ROUNDS") or (10 if os.environ.get("DEEP") else 4))
BIGGEST = 2**53 - 1
SNAPSHOTS: list[JsonObject | None] = [
    None,
    *(
        {"id": number, "manifest": f"sha256:{digits * 64}", "committedAt": at, "bytes": size, "files": size}
        for number, digits, at, size in (
            (0, "0", "1970-01-01T00:00:00Z", 0),
            (1, "c", "2999-12-31T23:59:59+14:00", BIGGEST),
            (BIGGEST, "f", "1000-01-01T00:00:00-14:00", 1),
        )
    ),
]
VALUES: dict[str, list[object]] = {
    "observedGeneration": [None, 0, BIGGEST],
    "accepted": [None, True, False],
    "group": [None, "", "sales", "stock", f"{BANK}/vault", "no/where", "../..", "x" * 127, "a/b/c", "\u202egroup"],
    "groupId": [None, "", "0.0", "x" * 63],
    "buckets": [None, 1, 65536],
    "replicas": [None, 1, 7],
    "columns": [[], [{"name": "k", "type": "no type"}], [{"name": f"c{i}", "type": "string"} for i in range(2000)]],
    "snapshot": list(SNAPSHOTS),
    "history": [[], SNAPSHOTS[1:], [SNAPSHOTS[2]] * 100],
    "conditions": [[], [{"type": kind, "status": "True", "reason": "Forged"} for kind in ("Accepted", "Ready", "x")]],
}  # fmt: skip
VERDICT = ("stable", "reason", "message", "backendsPerBucketSeq", "mapVersion", "groupId")


@pytest.fixture(scope="module")
def installation(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Groups ``shop/sales`` (tables ``orders``, ``lines``) and ``bank/vault`` (table ``coins``), all of them loaded."""
    with installed(plane, tmp_path_factory.mktemp("installation"), nodes=3) as one:
        one.start_operator()
        for namespace, name, tables in ((SHOP, "sales", ("orders", "lines")), (BANK, "vault", ("coins",))):
            one.kubectl("create", "-n", namespace, "-f", "-", stdin=as_json(group(name, allowedNamespaces=[BANK])))
            for each in tables:
                body = as_json(table(each, colocateWith=name))
                one.kubectl("create", "-n", namespace, "-f", "-", stdin=body)
            one.wait("cg", name, namespace, "condition=Stable")
            for each in tables:
                one.wait("ct", each, namespace, "condition=Ready")
                one.load(namespace, each)
        for namespace, each in ((SHOP, "orders"), (SHOP, "lines"), (BANK, "coins")):
            one.wait("ct", each, namespace, "jsonpath={.status.snapshot.id}=1")
        one.wait("cg", "sales", SHOP, "condition=Stable")
        yield one


def test_patches_of_one_tables_status_change_nothing_else(installation: Installation) -> None:
    """Ten fields in any combination; the operator makes its passes, the others keep files, verdicts and statuses."""
    chance = random.Random(SEED)
    after_passes(installation, 3)
    before, files = others(installation), files_of(installation, "orders")
    good = installation.read("ct", "orders", SHOP)["status"]
    assert installation.operator is not None
    for _ in range(ROUNDS):
        fields = chance.sample(sorted(VALUES), chance.randint(1, 4))
        patch = {field: chance.choice(VALUES[field]) for field in fields}
        write_status(installation, patch)
        after_passes(installation, 2)
        assert others(installation) == before, (SEED, as_json(patch)[:2000])
        assert installation.operator.poll() is None
    write_status(installation, good)
    installation.wait("ct", "orders", SHOP, "condition=Ready")
    assert files_of(installation, "orders") == files, "its own files wait for somebody who mends the status"
    assert {metric(installation, name) for name in ("failed_passes_total", "internal_errors_total")} == {0}


def write_status(installation: Installation, status: JsonObject) -> None:
    patch = ["--subresource=status", "--type=merge", "-p", as_json({"status": status})]
    installation.kubectl("patch", "ct", "orders", "-n", SHOP, *patch)


def others(installation: Installation) -> JsonObject:
    """All that the patched table's status may not change."""
    sales = installation.read("cg", "sales", SHOP)["status"]
    return {
        "sales": {key: sales.get(key) for key in VERDICT},
        "lines": installation.read("ct", "lines", SHOP)["status"],
        "vault": installation.read("cg", "vault", BANK)["status"],
        "coins": installation.read("ct", "coins", BANK)["status"],
        "agents": installation.read("configmaps", "sales-spark", SHOP)["data"]["agents.json"],
        "groups": [one["metadata"]["name"] for one in installation.read("cg")["items"]],
        "jobs": installation.read("jobs")["items"],
        "files": files_of(installation, "lines") | files_of(installation, "coins"),
    }


def files_of(installation: Installation, table: str) -> set[str]:
    """Data files of the table on all nodes."""
    roots = [installation.data_root(node) for node in installation.nodes]
    return {str(path) for root in roots for path in root.glob(f"*/{table}-*/data/*")}


def after_passes(installation: Installation, number: int) -> None:
    """Wait until the operator has made so many more passes."""
    wanted = metric(installation, "pass_seconds_count") + number
    until(lambda: metric(installation, "pass_seconds_count") >= wanted)


def metric(installation: Installation, name: str) -> float:
    """The sum over all labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{installation.health_port}/metrics") as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^colocation_{name}(?:{{.*}})? (.+)$", text, re.M))
