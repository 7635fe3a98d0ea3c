"""Spark images of users: laid out as Apache's and as EMR's, with our wheel in them, and Apache's with the jar alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from colocation.spark import jar_path
from demo import cluster, story, workload
from demo.shell import COLOCATION, REPOSITORY, run
from devcluster import images, network

from .applications import application
from .conftest import Loaded

pytestmark = [pytest.mark.e2e, pytest.mark.deep]

LAYOUTS = Path(__file__).parent / "own_images"
EXAMPLE = REPOSITORY / "examples" / "own-image" / "Dockerfile"
USERS = {"apache": "185", "emr": "999"}
"""Layout -> the number of its user, which its image gives by name."""


@pytest.fixture(scope="module")
def bases(loaded: Loaded) -> dict[str, str]:
    """Layout -> an image without anything of ours."""
    names = {layout: f"localhost/{layout}-spark:test" for layout in USERS}
    for layout, name in names.items():
        images.build(name, LAYOUTS / f"{layout}.Dockerfile", LAYOUTS, {"SPARK_IMAGE": cluster.SPARK_IMAGE})
    images.load(list(names.values()))
    return names


@pytest.fixture(scope="module", params=list(USERS))
def own_image(bases: dict[str, str], request: pytest.FixtureRequest) -> str:
    """The image that the example's Dockerfile makes of each."""
    name, layout = f"localhost/our-spark:{request.param}", str(request.param)
    images.build(name, EXAMPLE, REPOSITORY, {"BASE": bases[layout], "SPARK_USER": USERS[layout]})
    images.load([name])
    return name


def test_an_own_image_loads_and_joins(loaded: Loaded, own_image: str) -> None:
    """`colocation load --image`, a SparkApplication that names it, and `--direct`, each from local disks."""
    rows = workload.load("orders", loaded.folder, options=["--image", own_image], executors=1)["rows"]
    assert rows == loaded.oracle.row_count("orders")
    story.wait_for_stable(120)
    for options in ([], ["--direct"]):
        found = workload.submit_join(loaded.oracle, image=own_image, options=options)
        assert (found.exchanges, found.remote_bytes, found.answer_ok) == (0, 0, True)
        assert "colocate: true" in found.decision


def test_an_image_whose_user_has_a_name_only_is_explained(bases: dict[str, str]) -> None:
    """Pods must not run as root, and the kubelet cannot tell of a name that it is not root."""
    base = with_jar_alone(bases["apache"], "http://unused.invalid/x.jar")
    del base["spec"]["sparkConf"]["spark.jars"]
    for role in ("driver", "executor"):
        del base["spec"][role]["template"]["spec"]["securityContext"]
    done = run([COLOCATION, "submit", "-f", "-"], stdin=yaml.safe_dump(base), allowed=(1,))
    assert "non-numeric user (spark)" in done.stderr and "USER 185" in done.stderr


def test_the_jar_alone_joins_and_writes_in_sql(loaded: Loaded, bases: dict[str, str]) -> None:
    """By ``spark.jars`` in an image without anything of ours: right, without a shuffle, from local disks."""
    with served(jar_path()) as url:
        program = yaml.safe_dump(with_jar_alone(bases["apache"], url))
        result = workload.result_of(run([COLOCATION, "submit", "-f", "-"], stdin=program).stdout)
    assert result["rows"] == [[loaded.oracle.row_count("lineitem"), 0]]
    assert [colocate for _, colocate, _ in result["joins"]] == [True]
    local, remote = result["bytes"]
    assert local > 0 and remote == 0
    orders = loaded.oracle.row_count("orders")
    assert result["committed"][0][1:] == ["append", orders + 1]
    assert result["rowsAfter"] == [orders, orders]
    story.wait_for_stable(120)


def with_jar_alone(image: str, url: str) -> dict[str, Any]:
    """An application in an image as it is, user and jar by the manifest."""
    base = application("jar-alone", "jar_alone.py")
    spec = base["spec"]
    spec["image"] = image
    spec["sparkConf"] = {"spark.jars": url, "spark.sql.autoBroadcastJoinThreshold": "-1"}
    for role in ("driver", "executor"):
        template = spec[role].setdefault("template", {}).setdefault("spec", {})
        template["securityContext"] = {"runAsUser": int(USERS["apache"])}
    return base


@contextmanager
def served(file: Path) -> Iterator[str]:
    """The URL of a file while the body runs, for pods."""
    handler = partial(SimpleHTTPRequestHandler, directory=file.parent)
    with ThreadingHTTPServer((network.HOST_ADDRESS, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{network.HOST_ADDRESS}:{server.server_port}/{file.name}"
        finally:
            server.shutdown()
