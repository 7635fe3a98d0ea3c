"""``build/demo/report.json``: what one run of the demo measured."""

import json
from pathlib import Path

from .shell import REPOSITORY

PATH = REPOSITORY / "build" / "demo" / "report.json"


def write(report: dict[str, object]) -> Path:
    """Write the report whole or not at all."""
    PATH.parent.mkdir(parents=True, exist_ok=True)
    partial = PATH.with_suffix(".partial")
    partial.write_text(json.dumps(report, indent=2) + "\n")
    partial.rename(PATH)
    return PATH


def shortcomings(report: dict[str, dict[str, object]]) -> list[str]:
    """What the demo promises and this run did not show; empty when all is well."""
    promises = {
        "the colocated join has no Exchange": report["colocated"]["exchanges"] == 0,
        "the colocated join reads local disks only": report["colocated"]["remote_bytes"] == 0,
        "the colocated answers are right": report["colocated"]["answer_ok"],
        "the join with disableColocateJoin shuffles": int(str(report["shuffle"]["exchanges"])) > 0,
        "the shuffled answers are right": report["shuffle"]["answer_ok"],
        "the join needs no Exchange while a node is lost": report["node_lost"]["degraded_exchanges"] == 0,
        "the answers are right while a node is lost": report["node_lost"]["degraded_answer_ok"],
        "the lost replicas are cloned": int(str(report["node_lost"]["buckets_cloned"])) > 0,
        "an added node takes the minimal number of moves":
            report["node_added"]["moves"] == report["node_added"]["minimal_moves"],
        "the group stays stable while replicas move": report["node_added"]["stayed_stable"],
    }
    return [promise for promise, kept in promises.items() if not kept]
