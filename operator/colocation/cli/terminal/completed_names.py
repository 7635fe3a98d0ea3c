"""What a shell offers for the name of a group, table or node: what the API server has."""

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import HTTPError

from ..cluster import Cluster, Json
from ..errors import CommandFailed

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


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
