"""Options that several commands share, each set handed to the command as one value."""

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import click

from ..cluster import Cluster

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]

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
