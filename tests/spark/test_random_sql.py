"""Random stories of SQL by Thrift and by Spark Connect: every answer is DuckDB's. ``SEED=n`` tells another one."""

import os
from contextlib import closing

import pytest

from tests.integration.control_plane import ControlPlane
from tests.spark.conftest import MAP
from tests.spark.judging_operator import judged_tables
from tests.spark.loopback import LoopbackAgents
from tests.spark.random_sql import Story
from tests.spark.sql_clients import Client, Servers

pytestmark = [pytest.mark.spark, pytest.mark.deep]

SEED = int(os.environ.get("SEED", "20261125"))
STATEMENTS = 130


@pytest.mark.parametrize("way", ["thrift", "connect"])
def test_a_random_story(way: str, servers: Servers, plane: ControlPlane, agents: LoopbackAgents) -> None:
    """Tables by one key or two are made, changed in every way that there is, and asked, under all kinds of settings."""
    namespace = f"story-{way}-{SEED}"
    client: Client = servers.thrift() if way == "thrift" else servers.connect()
    with judged_tables(plane, agents, namespace, MAP) as tables, closing(client):
        tables.add_group("pairs", ["bigint", "string"], MAP)
        story = Story(SEED, client, namespace.replace("-", "_"))
        story.run(STATEMENTS)
    assert story.differences == []
