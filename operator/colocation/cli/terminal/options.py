"""Options that several commands share, completion of names, and input files."""

import functools
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import yaml
from click.shell_completion import CompletionItem
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from ..cluster import Cluster, Json
from ..errors import CommandFailed, WrongUsage

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class WholeNumber(click.IntRange):
    """A whole number between bounds; its name is for messages."""

    name = "whole number"


DEFAULT_OPERATOR_NAMESPACE = "colocation-system"

output_option: Decorator = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)

all_namespaces_option: Decorator = click.option(
    "-A", "--all-namespaces", "everywhere", is_flag=True, help="Show all namespaces."
)


class Seconds(click.FloatRange):
    """A time to wait."""

    name = "number of seconds"

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """A number from 0; `nan` is none."""
        seconds = super().convert(value, parameter, context)
        if math.isnan(seconds):
            self.fail(f"{value!r} given; allowed: seconds, 0 or more", parameter, context)
        return seconds


timeout_option: Decorator = click.option(
    "--timeout", "timeout_seconds", type=Seconds(), metavar="SECONDS",
    help="Stop waiting after SECONDS; default: no limit.",
)  # fmt: skip

context_option: Decorator = click.option("--context", default=None, help="Kubeconfig context; default: the current.")

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def checked_name(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """The name of a namespace or an account. The API server answers an impossible one with an empty list."""
    if value is not None and not _LABEL.fullmatch(value):
        raise click.BadParameter(f"{value!r} given; allowed: at most 63 lower-case letters, digits and dashes")
    return value


operator_namespace_option: Decorator = click.option(
    "--operator-namespace",
    envvar="COLOCATION_OPERATOR_NAMESPACE",
    default=DEFAULT_OPERATOR_NAMESPACE,
    callback=checked_name,
    show_default=True,
    help="Namespace of the operator.",
)


class Target:
    """Where a command works: the kubeconfig's context and the namespace, either may be left to the kubeconfig."""

    def __init__(self, context: str | None, namespace: str | None) -> None:
        self.context = context
        self.namespace = namespace

    def open(self) -> Cluster:
        """Connect.

        Raises:
            ConfigException: there is no kubeconfig, or not this context.
        """
        return Cluster(self.context, self.namespace)


def bundle(name: str, make: Callable[..., Any], *options: Decorator) -> Decorator:
    """A decorator that adds ``options`` to a command and hands it ``make(**values)`` as the parameter ``name``."""

    def decorate(command: Command) -> Command:
        own = [parameter.name for parameter in _parameters(options)]

        @functools.wraps(command)
        def bundled(*arguments: Any, **values: Any) -> Any:
            chosen = {key: values.pop(key) for key in own}
            return command(*arguments, **values, **{name: make(**chosen)})

        decorated: Command = bundled
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def _parameters(options: tuple[Decorator, ...]) -> list[click.Parameter]:
    def probe() -> None: ...

    decorated: Command = probe
    for option in options:
        decorated = option(decorated)
    parameters: list[click.Parameter] = decorated.__click_params__  # type: ignore[attr-defined]
    return parameters


cluster_options: Decorator = bundle(
    "target",
    Target,
    click.option("-n", "--namespace", default=None, callback=checked_name, help="Namespace; default: the context's."),
    context_option,
)
"""``-n/--namespace`` and ``--context`` as one ``target: Target``."""


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_of(list_objects: Callable[[Cluster], list[Json]]) -> Complete:
    """Completes an argument by the names of objects in the namespace and context of the line so far."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            cluster = Cluster(context.params.get("context"), context.params.get("namespace"))
            found = list_objects(cluster)
        except (ApiException, CommandFailed, ConfigException, HTTPError):
            return []  # a shell has no place for the error; the command itself will print it
        names = (str(item["metadata"]["name"]) for item in found)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return complete


complete_group = names_of(lambda cluster: cluster.groups())
complete_table = names_of(lambda cluster: cluster.tables())
complete_node = names_of(lambda cluster: cluster.nodes())


A_MANIFEST = "a file with a SparkApplication"


def read_text(file: str, wanted: str) -> str:
    """The text of a file; ``-`` reads standard input. ``wanted``: what to name instead, for the message.

    Raises:
        WrongUsage: no such file, a folder, or no text.
    """
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise WrongUsage(f"{file} cannot be read: {error.strerror}; name {wanted}") from error
    except UnicodeDecodeError as error:
        where = f"byte {error.start}: {error.reason}"
        raise WrongUsage(f"{shown(file)} is not UTF-8 text ({where}); name {wanted}") from error


def shown(file: str) -> str:
    """How messages name the input."""
    return "standard input" if file == "-" else file


def read_manifest(file: str) -> dict[str, Any]:
    """The one object in a YAML or JSON file; ``-`` reads standard input.

    Raises:
        WrongUsage: no such file, no YAML, or not exactly one object.
    """
    text, name = read_text(file, A_MANIFEST), shown(file)
    try:
        documents = [item for item in yaml.safe_load_all(text) if item is not None]
    except yaml.YAMLError as error:
        raise WrongUsage(f"{name} is not YAML: {error}") from error
    except RecursionError as error:
        raise WrongUsage(f"{name} is nested too deeply; name {A_MANIFEST}") from error
    if len(documents) != 1:
        raise WrongUsage(f"{name} holds {len(documents)} documents; allowed: exactly one, the SparkApplication")
    if not isinstance(documents[0], dict):
        kind = type(documents[0]).__name__
        raise WrongUsage(f"{name} holds a YAML {kind}; allowed: a mapping, the SparkApplication")
    return documents[0]
