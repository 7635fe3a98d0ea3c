"""A real Prometheus that scrapes what a test tells it to, with the chart's rules, and what it answers."""

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.control_plane import dying_with_us
from tests.support.ports import free_ports

from .programs import program

ALERTS = Path(__file__).parents[2] / "charts/colocation-operator/files/alerts.yaml"
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:
        """The ``data`` of an answer of its HTTP API; None while it does not listen."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.URLError:
            return None

    def value(self, expression: str) -> float | None:
        """The one value of an expression now."""
        data = self.get("query", query=expression)
        return float(data["result"][0]["value"][1]) if data and data["result"] else None

    def wait(self, holds: Callable[["Prometheus"], bool]) -> None:
        """Until it has scraped what makes this true."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds(self):
            assert time.monotonic() < deadline, self.get("targets")
            time.sleep(0.5)


@contextmanager
def running_prometheus(folder: Path, jobs: Mapping[str, Mapping[str, str]]) -> Iterator[Prometheus]:
    """``jobs``: name of the job -> name of the node -> address and port of its metrics."""
    folder.mkdir()
    scrapes = [
        {
            "job_name": job,
            "honor_labels": True,
            "static_configs": [
                {"targets": [address], "labels": {"node": node}} for node, address in addresses.items()
            ],
        }
        for job, addresses in jobs.items()
    ]
    intervals = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration = folder / "prometheus.yaml"
    configuration.write_text(
        yaml.safe_dump({"global": intervals, "rule_files": [str(ALERTS)], "scrape_configs": scrapes})
    )
    [port] = free_ports(1)
    command = [
        str(program("prometheus")), f"--config.file={configuration}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(dying_with_us(command), stdout=log, stderr=log)
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
