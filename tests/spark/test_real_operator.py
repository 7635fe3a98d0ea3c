"""SQL next to the real operator: what it refuses, no imitation of it may take."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.control_plane import running_plane
from tests.integration.installation import LOADER, installed

NAMESPACE = "shop"

pytestmark = pytest.mark.spark


def test_tables_are_replaced_by_others(tmp_path: Path) -> None:
    """A column goes, one becomes NOT NULL, and one may be added at once, before the operator has seen the new rows."""
    with running_plane() as plane, installed(plane, tmp_path, nodes=3) as installation:
        installation.start_operator()
        installation.kubectl("create", "namespace", NAMESPACE)
        account = installation.folder / LOADER
        (account / "kubeconfig").write_bytes(plane.kubeconfig.read_bytes())
        command = [sys.executable, "-m", "tests.spark.real_operator_program", str(account), NAMESPACE]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        assert json.loads(done.stdout.splitlines()[-1]) == [
            [[1, 10], [2, None]],
            [[0, 0, None], [7, 8, 9]],
        ]
        installation.wait("ct", "t", NAMESPACE, "jsonpath={.status.columns[2].name}=x")
        table = installation.read("ct", "t", NAMESPACE)
        assert table["status"]["accepted"] and table["status"]["columns"] == table["spec"]["columns"]
        assert [column.get("nullable", True) for column in table["spec"]["columns"]] == [False, False, True]
