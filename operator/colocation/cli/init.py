"""``init``: a namespace in which Spark may load and join tables."""

from typing import Any, cast

import click
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from ..manifests.namespace_access import MANAGER, access_objects, namespace_object
from .cluster import Cluster
from .errors import HTTP_CONFLICT, HTTP_FORBIDDEN, HTTP_NOT_FOUND
from .terminal.options import checked_name, context_option, output_option
from .terminal.output import Format, write

APPLY = "application/apply-patch+yaml"

Json = dict[str, Any]


@click.command()
@click.option("-n", "--namespace", required=True, callback=checked_name, help="Created if it does not exist.")
@click.option(
    "--service-account", default="spark", show_default=True, callback=checked_name,
    help="ServiceAccount of Spark's drivers and executors.",
)
@click.option("--dry-run", is_flag=True, help="Print the manifests; create nothing.")
@context_option
@output_option
def init(namespace: str, service_account: str, dry_run: bool, context: str | None, output: Format) -> None:
    """Prepare NAMESPACE for Spark and groups.

    The command creates the namespace, a ServiceAccount for Spark, and its RoleBindings. You can repeat it. An existing
    namespace keeps its labels. You need the right to create these objects, and every right that the roles grant.
    """
    objects = access_objects(namespace, service_account)
    if dry_run:
        click.echo(yaml.safe_dump_all([namespace_object(namespace), *objects], sort_keys=False), nl=False)
        return
    cluster = Cluster(context, namespace)
    cluster.check_kinds()
    cluster.check_roles(item["roleRef"]["name"] for item in objects if "roleRef" in item)
    connection = cluster.connection
    made = _create_namespace(client.CoreV1Api(connection), namespace)
    done = {f"namespace/{namespace}": "created" if made else "exists"}
    for item in objects:
        _apply(connection, item)
        done[f"{item['kind'].lower()}/{item['metadata']['name']}"] = "applied"
    write(done, "\n".join(f"{name} {what}" for name, what in done.items()), output)


def _create_namespace(core: "client.CoreV1Api", name: str) -> bool:
    """Whether it was made. One that exists may hold pods of others, so its Pod Security is left alone.

    Who may not make namespaces may have been given this one.
    """
    try:
        core.create_namespace(cast("Any", namespace_object(name)))
    except ApiException as error:
        if error.status == HTTP_CONFLICT or (error.status == HTTP_FORBIDDEN and _exists(core, name)):
            return False
        raise
    return True


def _exists(core: "client.CoreV1Api", name: str) -> bool:
    """Whether one can see a namespace of this name."""
    try:
        core.read_namespace(name)
    except ApiException as error:
        if error.status in (HTTP_FORBIDDEN, HTTP_NOT_FOUND):
            return False
        raise
    return True


def _apply(connection: client.ApiClient, item: Json) -> None:
    """Server-side apply: the object's fields are so, whether it existed or not."""
    core, rights = client.CoreV1Api(connection), client.RbacAuthorizationV1Api(connection)
    patch = {
        "ServiceAccount": core.patch_namespaced_service_account,
        "RoleBinding": rights.patch_namespaced_role_binding,
    }[item["kind"]]
    metadata = item["metadata"]
    patch(metadata["name"], metadata["namespace"], item, field_manager=MANAGER, force=True, _content_type=APPLY)
