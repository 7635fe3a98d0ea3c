"""README's own-cluster path, as far as it can be checked without a cluster; tests/e2e/test_9_own_cluster.py runs it."""

import re
from importlib.metadata import version
from pathlib import Path

import pyspark
import yaml

from tests.e2e.own_cluster.readme import REPOSITORY, blocks, commands


def test_the_readmes_tables_are_those_of_the_example() -> None:
    """What the README shows stands in the file that it applies."""
    (shown,) = blocks("yaml")
    assert shown in (REPOSITORY / "examples" / "shop" / "tables.yaml").read_text()


def test_the_readers_registry_takes_the_place_of_the_examples() -> None:
    """In each of the steps; no example's host is left."""
    steps = commands("192.0.2.1:5000")
    assert len(steps) == 7
    assert all(step.startswith("export REGISTRY=192.0.2.1:5000\n") for step in steps)
    assert "example.com" not in "".join(steps)


def test_images_are_tagged_with_the_charts_version() -> None:
    """The tags of the README are those of the release."""
    tags = set(re.findall(r"colocation-(?:operator|spark):(\S+)", "".join(blocks("sh"))))
    assert tags == {version("colocation")}


def test_the_lake_is_read_with_the_hadoop_of_each_spark() -> None:
    """A profile and a lock for each supported Spark, and in the lock the very connector of the profile."""
    pom = (REPOSITORY / "spark_images" / "s3" / "pom.xml").read_text()
    profiles = dict(re.findall(r"<id>spark-(.*?)</id>.*?<hadoop.version>(.*?)</hadoop.version>", pom, re.DOTALL))
    supported = {path.stem.removeprefix("pyspark-") for path in (REPOSITORY / "locks").glob("pyspark-*.txt")}
    assert profiles.keys() == supported
    for spark, hadoop in profiles.items():
        assert f"hadoop-aws-{hadoop}.jar" in (REPOSITORY / "locks" / f"s3-jars-{spark}.txt").read_text()


def test_sparks_own_hadoop_is_the_profiles() -> None:
    """Of the Spark that is installed here: its Hadoop client and our connector are of one release."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    lock = (REPOSITORY / "locks" / f"s3-jars-{pyspark.__version__}.txt").read_text()
    assert f"hadoop-aws-{client.stem.removeprefix('hadoop-client-api-')}.jar" in lock


def test_the_example_is_of_one_namespace() -> None:
    """The one that `colocation init` makes."""
    objects = list(yaml.safe_load_all((REPOSITORY / "examples" / "shop" / "tables.yaml").read_text()))
    assert {one["metadata"]["namespace"] for one in objects} == {"shop"}
