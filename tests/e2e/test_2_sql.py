"""The group's tables through the catalog, in SQL alone: joins, CREATE and DROP TABLE, judged by the real operator."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import story, workload
from demo.shell import COLOCATION, kubectl, run

from .conftest import Loaded

pytestmark = pytest.mark.e2e

PROGRAMS = Path(__file__).parent / "programs"


def test_tables_are_joined_made_and_dropped_in_sql(loaded: Loaded) -> None:
    """No shuffle, right answers, nothing in the session catalog; what the operator refuses is gone again."""
    subject = f"--serviceaccount={workload.NAMESPACE}:spark"
    role = ("create", "rolebinding", "spark-edits", "--clusterrole=colocation-edit", subject)
    kubectl(*role, "-n", workload.NAMESPACE)
    try:
        result = workload.result_of(run([COLOCATION, "submit", "-f", "-"], stdin=yaml.safe_dump(application())).stdout)
    finally:
        kubectl("delete", "rolebinding", "spark-edits", "-n", workload.NAMESPACE)
    assert result["rows"] == [[loaded.oracle.row_count("lineitem"), 0]]
    assert ([join["colocate"] for join in result["joins"]], result["exchanges"]) == ([True], 0)
    assert result["localBytes"] > 0
    assert result["foreign"] == []
    assert (result["made"], result["madeRows"]) == (["notes-in-sql"], [[0]])
    assert "SchemaMismatch" in result["refusal"] and "7" in result["refusal"]
    assert result["left"] == []
    story.wait_for_stable(120)


def application() -> dict[str, Any]:
    """The example's join application with another program."""
    base: dict[str, Any] = yaml.safe_load((workload.EXAMPLES / "applications" / "join.yaml").read_text())
    base["metadata"]["name"] = "tables-in-sql"
    spec = base["spec"]
    spec["mainApplicationFile"] = "local:///opt/programs/tables_in_sql.py"
    pod = spec["driver"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "programs", "mountPath": "/opt/programs", "readOnly": True}]
    pod["volumes"] = [{"name": "programs", "hostPath": {"path": str(PROGRAMS), "type": "Directory"}}]
    return base
