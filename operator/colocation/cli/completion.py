"""``completion``: what a shell needs to complete commands, options, and names of groups, tables and nodes."""

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, get_completion_class
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from .cluster import Cluster, Json
from .errors import CommandFailed

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_COLOCATION_COMPLETE"
INSTALL = {
    "bash": 'echo \'source <(colocation completion bash)\' >> ~/.bashrc',
    "zsh": "echo 'source <(colocation completion zsh)' >> ~/.zshrc",
    "fish": "colocation completion fish > ~/.config/fish/completions/colocation.fish",
}

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command(epilog="To install it: " + "; ".join(f"{shell}: {words}" for shell, words in INSTALL.items()))
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for SHELL.

    The script asks the API server for the names of groups, tables and nodes. If it does not answer, no names are
    offered.
    """
    made = get_completion_class(shell)
    assert made, "click knows the shells that are allowed"
    click.echo(made(context.find_root().command, {}, "colocation", VARIABLE).source())


def names_of(list_objects: Callable[[Cluster], list[Json]]) -> Complete:
    """Completes an argument by the names of objects of the namespace and context that the line says so far."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            cluster = Cluster(context.params.get("context"), context.params.get("namespace"))
            found = list_objects(cluster)
        except (ApiException, CommandFailed, ConfigException, HTTPError):
            return []  # a shell has no place for the error; the command itself will say it
        names = (str(item["metadata"]["name"]) for item in found)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return complete


complete_group = names_of(lambda cluster: cluster.groups())
complete_table = names_of(lambda cluster: cluster.tables())
complete_node = names_of(lambda cluster: cluster.nodes())
