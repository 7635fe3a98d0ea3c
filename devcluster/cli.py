"""The command line: one command per intent; exit code 0 done, 1 failed, 2 wrong usage."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import devcluster
from devcluster import binaries, cluster, images, kept, network, paths
from devcluster.errors import DevclusterError, UsageError
from devcluster.progress import say

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

EXAMPLES = """\
examples:
  python -m devcluster up --nodes 3
  eval "$(python -m devcluster env)" && kubectl get nodes
  python -m devcluster build-image --file Dockerfile --tag localhost/app:dev .
  python -m devcluster load-image localhost/app:dev
  python -m devcluster kill-node 2
  python -m devcluster down
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    try:
        options = build_parser().parse_args(arguments)
        return options.run(options) or 0
    except UsageError as error:
        say(f"wrong usage: {error}")
        return 2
    except DevclusterError as error:
        say(f"failed: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; `python -m devcluster down` removes what was started")
        return 130


def build_parser() -> argparse.ArgumentParser:
    """Every command with its arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m devcluster", description=devcluster.__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_cluster_commands(commands)
    _add_node_commands(commands)
    _add_image_commands(commands)
    return parser


def _add_cluster_commands(commands: Commands) -> None:
    up = _add(commands, "up", _up, "start a fresh cluster (ends one that runs, but none that another checkout keeps)")
    up.add_argument("--nodes", type=_node_count, default=3, metavar="N", help="how many nodes (default: 3)")
    up.add_argument("--reuse", action="store_true", help="keep a healthy cluster that has at least that many nodes")
    _add(commands, "down", _down, "end the cluster and remove everything it made, except the cache")
    status = _add(commands, "status", _status, "show every part; exit code 1 unless all is well")
    status.add_argument("-o", "--output", choices=("text", "json"), default="text")
    _add(commands, "env", _env, "print shell lines that put kubectl, helm and the kubeconfig in place")
    build = _add(commands, "build", _build, "build programs into the cache")
    names = [component.name for component in binaries.COMPONENTS]
    build.add_argument("components", nargs="*", metavar="COMPONENT", help=f"default: all of {', '.join(names)}")


def _add_node_commands(commands: Commands) -> None:
    _add(commands, "add-node", _add_node, "start one node more, with all loaded images")
    for name, action, help_text in (
        ("kill-node", cluster.kill_node, "lose a node: SIGKILL to its kubelet, containerd and pods"),
        ("start-node", cluster.start_node, "bring a lost node back with its disks"),
        ("partition-node", lambda number: cluster.set_partitioned(number, True), "cut a node off from the network"),
        ("heal-node", lambda number: cluster.set_partitioned(number, False), "reconnect a node that was cut off"),
    ):
        command = _add(commands, name, _on_node(action), help_text)
        command.add_argument("number", type=_node_number, metavar="N", help="2 or node-2")
    shape = _add(commands, "shape-links", _shape_links, "limit the bandwidth of every node's link")
    choice = shape.add_mutually_exclusive_group(required=True)
    choice.add_argument("--rate", metavar="RATE", help="as tc writes it, such as 1gbit")
    choice.add_argument("--off", action="store_true", help="lift the limit")


def _add_image_commands(commands: Commands) -> None:
    build = _add(commands, "build-image", _build_image, "build an image from a Dockerfile")
    build.add_argument("--file", type=Path, required=True, metavar="DOCKERFILE")
    build.add_argument("--tag", required=True, metavar="NAME:TAG")
    build.add_argument("--build-arg", action="append", default=[], type=_build_argument, metavar="KEY=VALUE")
    build.add_argument("context", type=Path, metavar="CONTEXT")
    load = _add(commands, "load-image", _load_image, "bring built images into all nodes")
    load.add_argument("references", nargs="+", metavar="NAME:TAG")
    operator = _add(commands, "build-spark-operator-image", _build_spark_operator_image,
                    "build the image of Kubeflow's Spark operator on top of a Spark image")  # fmt: skip
    operator.add_argument("spark_image", metavar="SPARK_IMAGE")


def _add(
    commands: Commands, name: str, action: Callable[[argparse.Namespace], int | None], text: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=action)
    return command


def _node_count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= network.MAX_NODES:
        raise argparse.ArgumentTypeError(f"{text!r} given, 1 to {network.MAX_NODES} allowed")
    return int(text)


def _node_number(text: str) -> int:
    digits = text.removeprefix("node-")
    if not digits.isdigit() or not 1 <= int(digits) <= network.MAX_NODES:
        raise argparse.ArgumentTypeError(f"{text!r} given; a node's number (2) or name (node-2) allowed")
    return int(digits)


def _build_argument(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise argparse.ArgumentTypeError(f"{text!r} given, KEY=VALUE allowed")
    return key, value


def _up(options: argparse.Namespace) -> None:
    if theirs := cluster.users_kubeconfig():
        say(f"KUBECONFIG is set: your cluster is used ({theirs}); nothing is built or started")
        return
    try:
        cluster.up(options.nodes, options.reuse)
        kept.keep()
    except DevclusterError:
        say("what was started is left for you to look at; `python -m devcluster down` removes it")
        raise
    say('ready: eval "$(python -m devcluster env)"')


def _down(_: argparse.Namespace) -> None:
    if theirs := cluster.users_kubeconfig():
        say(f"KUBECONFIG is set: your cluster is used ({theirs}); nothing is ended")
        return
    cluster.down()


def _require_embedded(command: str) -> None:
    if theirs := cluster.users_kubeconfig():
        raise DevclusterError(f"{command} works on the embedded cluster only, and KUBECONFIG names yours ({theirs})")


def _status(options: argparse.Namespace) -> int:
    _require_embedded("status")
    parts = cluster.status()
    if options.output == "json":
        print(json.dumps(parts, indent=2))
    elif parts:
        print("\n".join(f"{name:26} {state}" for name, state in parts.items()))
    else:
        print("no cluster is there")
    return 0 if parts and all(state in ("running", "Ready") for state in parts.values()) else 1


def _env(_: argparse.Namespace) -> None:
    if theirs := cluster.users_kubeconfig():
        print(f"export KUBECONFIG='{theirs}'")
        return
    print(f'export PATH={paths.BIN}:"$PATH"')
    print(f"export KUBECONFIG={paths.KUBECONFIG}")


def _build(options: argparse.Namespace) -> None:
    known = {component.name: component for component in binaries.COMPONENTS}
    unknown = [name for name in options.components if name not in known]
    if unknown:
        raise UsageError(f"component {unknown[0]!r} given, {', '.join(known)} allowed")
    binaries.ensure(tuple(known[name] for name in options.components) or binaries.COMPONENTS)
    for component in binaries.COMPONENTS:
        say(f"{component.name} {component.version}: {component.folder if component.folder.exists() else 'not built'}")


def _add_node(_: argparse.Namespace) -> None:
    _require_embedded("add-node")
    print(cluster.add_node().name)


def _on_node(action: Callable[[int], None]) -> Callable[[argparse.Namespace], None]:
    def run(options: argparse.Namespace) -> None:
        _require_embedded(options.command)
        action(options.number)

    return run


def _shape_links(options: argparse.Namespace) -> None:
    _require_embedded("shape-links")
    cluster.shape_links(options.rate)


def _build_image(options: argparse.Namespace) -> None:
    for path, what in ((options.file, "--file"), (options.context, "CONTEXT")):
        if not path.exists():
            raise UsageError(f"{what} {path} given, which does not exist")
    images.build(options.tag, options.file, options.context, dict(options.build_arg))


def _load_image(options: argparse.Namespace) -> None:
    _require_embedded("load-image")
    images.load(options.references)


def _build_spark_operator_image(options: argparse.Namespace) -> None:
    print(images.build_spark_operator_image(options.spark_image))
