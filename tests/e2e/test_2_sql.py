"""The group's tables in SQL alone: joined, made, written, dropped, as the real operator judges."""

import pytest
import yaml

from demo import story, workload
from demo.shell import COLOCATION, kubectl, run

from .applications import application
from .conftest import Loaded

pytestmark = pytest.mark.e2e


def test_tables_are_joined_made_written_and_dropped_in_sql(loaded: Loaded) -> None:
    """No shuffle, right answers, nothing in the session catalog; what the operator refuses is gone again."""
    subject = f"--serviceaccount={workload.NAMESPACE}:spark"
    role = ("create", "rolebinding", "spark-edits", "--clusterrole=colocation-edit", subject)
    kubectl(*role, "-n", workload.NAMESPACE)
    try:
        program = yaml.safe_dump(application("tables-in-sql", "tables_in_sql.py"))
        result = workload.result_of(run([COLOCATION, "submit", "-f", "-"], stdin=program).stdout)
    finally:
        kubectl("delete", "rolebinding", "spark-edits", "-n", workload.NAMESPACE)
    assert result["rows"] == [[loaded.oracle.row_count("lineitem"), 0]]
    assert ([join["colocate"] for join in result["joins"]], result["exchanges"]) == ([True], 0)
    assert result["localBytes"] > 0
    assert result["foreign"] == []
    orders = loaded.oracle.row_count("orders")
    assert result["made"] == ["notes-in-sql"]
    assert (result["merged"], result["notes"]) == ([2, 1], [[orders + 1, 0]])
    assert (result["copies"], result["copiesJoin"]) == ([[orders, orders + 1]], True)
    assert "SchemaMismatch" in result["refusal"] and "7" in result["refusal"]
    assert result["left"] == []
    story.wait_for_stable(120)
