"""`colocation plan --snapshot`: offline, from a file."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..conftest import Run


def snapshot(**group: Any) -> dict[str, Any]:
    """Node-2 is gone for good; every bucket has a replica on it. ``group`` changes the group."""
    return {
        "now": "2026-11-21T00:00:00Z",
        "nodes": [
            {"name": name, "capacityBytes": 10**12, "freeBytes": 9 * 10**11, "weight": 1.0}
            for name in ("node-1", "node-3")
        ],
        "groups": [{
            "namespace": "shop", "name": "sales", "spec": {"bucketKey": ["bigint"], "buckets": 2, "replicas": 2},
            "map": [["node-1", "node-2"], ["node-1", "node-2"]], "bucketBytes": [1000, 2048],
            "held": {"node-1": {"0": "complete", "1": "complete"}}, **group,
        }],
    }  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(snapshot()))
    return str(path)


def test_the_plan_for_programs(run: Run, file: str) -> None:
    """The JSON of design.md: moves with from, to, kind, bytes; which start now; the target map."""
    (group,) = json.loads(run("plan", "--snapshot", file, "-o", "json").stdout)["groups"]
    assert group["stable"] is False
    assert [(move["bucket"], move["from"], move["to"], move["kind"], move["bytes"]) for move in group["moves"]] == [
        (0, "node-2", "node-3", "repair", 1000), (1, "node-2", "node-3", "repair", 2048),
    ]  # fmt: skip
    assert group["targetMap"] == [["node-1", "node-3"], ["node-1", "node-3"]]
    assert group["startNow"] == [0, 1]


def test_yaml_shows_the_same_as_json(run: Run, file: str) -> None:
    """Two formats, one value."""
    as_json = json.loads(run("plan", "--snapshot", file, "-o", "json").stdout)
    assert yaml.safe_load(run("plan", "--snapshot", file, "-o", "yaml").stdout) == as_json


def test_the_plan_for_people(run: Run, file: str) -> None:
    """What, why, and how many bytes."""
    text = run("plan", "--snapshot", file).stdout
    assert "group shop/sales: not stable, NodeGone" in text
    assert "2 replicas to make, 3.0 KiB, 2 of them at once" in text
    assert "node-2   node-3   repair" in text


def test_nothing_to_do_is_said(run: Run) -> None:
    """A quiet group plans nothing, in words."""
    nodes = [{"name": "node-1"}, {"name": "node-2"}]
    whole = {"0": "complete", "1": "complete"}
    quiet = {**snapshot(held={"node-1": whole, "node-2": whole}), "nodes": nodes}
    assert "nothing would move" in run("plan", "--snapshot", "-", stdin=json.dumps(quiet)).stdout


def test_one_group_is_chosen_by_name_and_namespace(run: Run, file: str) -> None:
    """GROUP and -n narrow a file's groups; one that is not there fails and the others are listed."""
    assert run("plan", "sales", "--snapshot", file).exit_code == 0
    assert run("plan", "sales", "-n", "shop", "--snapshot", file).exit_code == 0
    done = run("plan", "sales", "-n", "other", "--snapshot", file)
    assert done.exit_code == 1
    assert "there is no group other/sales; there are: shop/sales" in done.stderr
