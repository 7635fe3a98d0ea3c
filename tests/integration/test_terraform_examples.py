"""examples/clouds/*.tf: HashiCorp's own parser reads them, and the providers know each block, argument and type.

The parser and the schemas come from npm: hcl2json is the parser, compiled for Node.js, and a provider's classes for
CDKTF are generated from its schema. Terraform itself would ask the providers' programs, which no package has.
"""

import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.joins.inputs import CACHE

pytestmark = pytest.mark.deep

CLOUDS = Path(__file__).parents[2] / "examples" / "clouds"
PARSER = "@cdktf/hcl2json@0.21.0"
PARSE = """
const {parse} = require("@cdktf/hcl2json");
const {readFileSync} = require("fs");
parse("example.tf", readFileSync(0, "utf8")).then(found => console.log(JSON.stringify(found)));
"""
POOLS = {
    "eks.tf": ("aws_eks_node_group", "@cdktf/provider-aws@21.22.1", "eks-node-group", "EksNodeGroup"),
    "gke.tf": (
        "google_container_node_pool", "@cdktf/provider-google@16.12.1", "container-node-pool", "ContainerNodePool",
    ),
}  # fmt: skip
"""The resource, and where its schema is: package, folder and class."""
LABELS = {"colocation.dev/data": "true"}
TAINT = {"key": "dedicated", "value": "colocation", "effect": "NO_SCHEDULE"}
FIELD = re.compile(
    r"#(\w+) \w+#\1\}(?:(?!readonly).)*?\*/\s*readonly \w+(\??): (.*?);\n(?=    /\*\*|\Z)", re.DOTALL
)
"""The name in a comment's link, a question mark where it is optional, and its type."""
Fields = dict[str, tuple[bool, str]]
"""By an argument's name: whether it is required, and its type in TypeScript."""


def npm(*arguments: str, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["npm", *arguments, "--silent"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parser")
    npm("install", "--no-audit", "--no-fund", PARSER, folder=folder)
    return folder


def parsed(text: str, parser: Path) -> dict[str, Any]:
    done = subprocess.run(["node", "-e", PARSE], cwd=parser, input=text, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def schema(package: str, folder: str) -> dict[str, Fields]:
    """The arguments of each block of a resource, by the name of its interface."""
    cache = CACHE / "terraform"
    name, _, version = package.lstrip("@").replace("/", "-").partition("@")
    archive = cache / f"{name}-{version}.tgz"
    if not archive.exists():
        npm("pack", package, folder=cache)
    with tarfile.open(archive) as files:
        source = files.extractfile(f"package/lib/{folder}/index.d.ts")
        assert source is not None
        text = source.read().decode()
    blocks = {}
    for interface, body in re.findall(r"^export interface (\w+)[^{]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        fields = FIELD.findall(body)
        blocks[interface] = {field: (not optional, kind) for field, optional, kind in fields}
    return blocks


def mistakes(given: dict[str, Any], blocks: dict[str, Fields], interface: str) -> list[str]:
    """Arguments that a block does not have, lacks, or has with another type."""
    known = blocks[interface]
    found = [f"{interface} lacks {name}" for name, (required, _) in known.items() if required and name not in given]
    for name, value in given.items():
        if name not in known:
            found.append(f"{interface} has no {name}")
            continue
        inner = re.match(r"\w+", known[name][1])
        if inner and inner[0] in blocks:
            found += [line for block in value for line in mistakes(block, blocks, inner[0])]
        elif not fits(value, known[name][1]):
            found.append(f"{interface}.{name} is {known[name][1]}, not {value!r}")
    return found


def fits(value: object, kind: str) -> bool:
    """A reference may be of any type."""
    if isinstance(value, str) and value.startswith("${"):
        return True
    if kind.startswith("{"):
        return isinstance(value, dict)
    if kind.endswith("[]"):
        return isinstance(value, list)
    return isinstance(value, {"string": str, "number": int, "boolean": bool}[kind.partition(" ")[0]])


@pytest.mark.parametrize("file", POOLS)
def test_a_node_pool(file: str, parser: Path) -> None:
    """It is valid, and has the label and the taint of the page on clouds."""
    resource, package, folder, interface = POOLS[file]
    found = parsed((CLOUDS / file).read_text(), parser)
    [(_, [pool])] = found["resource"][resource].items()
    blocks = schema(package, folder)
    assert len(blocks) > 5
    assert mistakes(pool, blocks, f"{interface}Config") == []
    [machine] = pool.get("node_config", [pool])
    assert (machine["labels"], machine["taint"]) == (LABELS, [TAINT])


def test_mistakes_are_found(parser: Path) -> None:
    """Of names, of types, and what is missing, also within a block."""
    resource, package, folder, interface = POOLS["eks.tf"]
    text = (CLOUDS / "eks.tf").read_text()
    for right, wrong in {
        "max_unavailable = 1": 'max_unavailable = "one"', "min_size ": "least_size ", "update_config {": "updates {",
        "subnet_ids      = var.subnet_ids": "",
    }.items():  # fmt: skip
        assert right in text
        [(_, [pool])] = parsed(text.replace(right, wrong), parser)["resource"][resource].items()
        assert mistakes(pool, schema(package, folder), f"{interface}Config") != [], wrong
