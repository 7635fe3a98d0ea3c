"""``report``: one archive of bounded size for a bug report, without credentials or values of environment variables."""

import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from ...model.names import APP_NAME, GROUP_API_VERSION, LABEL_NAME
from ...model.wording import counted
from ..cluster import Cluster
from ..errors import CommandFailed, api_message
from ..port_forward import fetch_snapshot
from ..terminal.live import warn
from ..terminal.options import context_option, operator_namespace_option
from ..terminal.output import columns, size, tell

REDACTED = "REDACTED"
DROPPED_METADATA = ("managedFields",)
OUR_ANNOTATIONS = ("colocation.dev/", "group.colocation.dev/", "recover.colocation.dev/")
NAMES = ("Name", "name")
"""Of fields that name a Secret or an account, and give nothing away."""

_KEY = re.compile(r"secret|password|passwd|token|credential|access.?key|private.?key|authorization", re.IGNORECASE)
_IN_TEXT = (
    re.compile(r"(?i)((?:bearer|basic)\s+)[\w.~+/=-]+"),
    re.compile(r"()eyJ[\w-]+\.[\w-]+\.[\w-]*"),  # a JSON web token
    re.compile(r"()\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"(://[^\s/:@]+:)[^\s/@]+(?=@)"),  # a URL's password
    re.compile(
        # The name may go on, as in fs.s3a.secret.key, but not to name the place of a credential, as in tokenFile.
        r"(?i)((?:password|passwd|secret|token|credential|(?:access|account|private)[._-]?key|[?&]sig|signature)"
        r"(?![\w.-]{0,99}(?:file|path|name|ref|seconds)\b)[\w.-]{0,99}[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]+"
    ),
    re.compile(r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
)


def redact_text(text: str) -> str:
    """Text without what looks like a credential."""
    for pattern in _IN_TEXT:
        text = pattern.sub(rf"\g<1>{REDACTED}", text)
    return text


def redact_object(value: Any) -> Any:
    """A Kubernetes object: environment variables keep their names; only our own annotations stay."""
    if isinstance(value, list):
        return [redact_object(item) for item in value]
    if not isinstance(value, dict):
        return redact_text(value) if isinstance(value, str) else value
    redacted: dict[str, Any] = {}
    for key, item in value.items():
        if key in DROPPED_METADATA:
            continue
        if key == "annotations" and isinstance(item, dict):
            item = {name: text for name, text in item.items() if str(name).startswith(OUR_ANNOTATIONS)}
        if key == "env" and isinstance(item, list):
            redacted[key] = [_variable(one) for one in item]
        elif isinstance(item, str) and _KEY.search(str(key)) and not str(key).endswith(NAMES):
            redacted[key] = REDACTED
        else:
            redacted[key] = redact_object(item)
    return redacted


def _variable(variable: Any) -> Any:
    if not isinstance(variable, dict):
        return REDACTED
    return {key: REDACTED if key == "value" else redact_object(item) for key, item in variable.items()}


MAX_FILE_BYTES = 2 * 2**20
MAX_TOTAL_BYTES = 64 * 2**20
LOG_LINES = 5000
NOT_COLLECTED = "not collected:"
TOO_MUCH = f"{NOT_COLLECTED} too much\n".encode()
WHO_MAY = "who has the ClusterRole colocation-admin and the Role colocation-snapshot may see all of them"
SUMMARY = "README.txt"
INTRODUCTION = """\
What this archive holds, and what it does not.

Held: groups and tables with their columns' names, nodes, our pods and Jobs, events about them, the operator's
snapshot, and the ends of the logs of operator and agents.
Not held: Secrets, ConfigMaps, values of environment variables, tokens, other annotations than ours, Spark
applications, and rows or files of tables.
What looks like a credential in the rest reads REDACTED. Read it over before you attach it.

"""


@dataclass(frozen=True)
class Source:
    """One file of the archive, and how to get what is in it."""

    name: str
    fetch: Callable[[], str]


@click.command()
@click.option("-o", "--output", "--file", "path", type=click.Path(path_type=Path, dir_okay=False), default=None,
              help="File to write; default: colocation-report-<time>.tar.gz.")  # fmt: skip
@context_option
@operator_namespace_option
def report(path: Path | None, context: str | None, operator_namespace: str) -> None:
    """Collect what a bug report needs into one archive.

    The archive holds objects, events, logs and versions. It holds no Secrets, no values of environment variables, no
    tokens and no rows. The command lists what is in it.
    """
    cluster = Cluster(context, None)
    path = path or Path(f"colocation-report-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    files = collect(sources(cluster, operator_namespace))
    write_archive(path, files)
    rows = [[name, size(len(content))] for name, content in files.items()]
    tell(f"{columns(['FILE', 'SIZE'], rows)}\n\nwritten to {path}; read it over before you attach it")
    if lacking := [name for name, content in files.items() if content.startswith(NOT_COLLECTED.encode())]:
        warn([f"not collected, for the reason in each of these files: {', '.join(lacking)}; {WHO_MAY}"])


def collect(found: Iterator[Source]) -> dict[str, bytes]:
    """The files by name. In place of what cannot be read is a file with the reason; too long files keep their end."""
    files: dict[str, bytes] = {}
    left = MAX_TOTAL_BYTES
    for source in found:
        try:
            text = source.fetch()
        except ApiException as error:
            text = f"{NOT_COLLECTED} {api_message(error)}\n"
        except CommandFailed as error:
            text = f"{NOT_COLLECTED} {error.message}\n"
        content = redact_text(text).encode()[-min(MAX_FILE_BYTES, left):] if left else TOO_MUCH
        files[source.name] = content
        left = max(0, left - len(content))
    listing = "".join(f"{name}: {counted(len(content), 'byte')}\n" for name, content in files.items())
    return {SUMMARY: (INTRODUCTION + listing).encode(), **files}


def write_archive(path: Path, files: dict[str, bytes]) -> None:
    """A tar.gz with one folder, readable by its owner alone; a file that exists is not written over.

    Raises:
        CommandFailed: it cannot be written.
    """
    folder = path.name.removesuffix(".tar.gz")
    try:
        with open(path, "xb", opener=_private) as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mode = len(content), 0o600
                archive.addfile(entry, io.BytesIO(content))
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}; choose another one by -o") from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sources(cluster: Cluster, operator_namespace: str) -> Iterator[Source]:
    """What is worth knowing, the most telling first: the bound on the size cuts the rest."""
    connection = cluster.connection
    core, batch = client.CoreV1Api(connection), client.BatchV1Api(connection)

    def dump(objects: Any) -> str:
        plain = connection.sanitize_for_serialization(objects)
        return yaml.safe_dump_all(redact_object(plain), sort_keys=False)

    ours = f"{LABEL_NAME}={APP_NAME}"
    yield Source("versions.yaml", lambda: _versions(connection))
    yield Source("groups.yaml", lambda: dump(cluster.all_groups()))
    yield Source("tables.yaml", lambda: dump(cluster.all_tables()))
    yield Source("snapshot.json", lambda: fetch_snapshot(connection, operator_namespace).model_dump_json(by_alias=True))
    yield Source("nodes.yaml", lambda: dump(core.list_node().items))
    yield Source("pods.yaml", lambda: dump(core.list_namespaced_pod(operator_namespace).items))
    yield Source("jobs.yaml", lambda: dump(batch.list_namespaced_job(operator_namespace, label_selector=ours).items))
    yield Source("events.yaml", lambda: dump(core.list_namespaced_event(operator_namespace).items))
    kind = f"involvedObject.apiVersion={GROUP_API_VERSION}"
    yield Source("events-of-groups.yaml", lambda: dump(core.list_event_for_all_namespaces(field_selector=kind).items))
    yield from _logs(core, operator_namespace, ours)


def _logs(core: "client.CoreV1Api", namespace: str, selector: str) -> Iterator[Source]:
    try:
        pods: list[Any] = core.list_namespaced_pod(namespace, label_selector=selector).items
    except ApiException:
        return  # pods.yaml has the reason
    for name in sorted(str(pod.metadata.name) for pod in pods):
        for previous in (False, True):

            def fetch(name: str = name, previous: bool = previous) -> str:
                return str(core.read_namespaced_pod_log(name, namespace, tail_lines=LOG_LINES, previous=previous))

            yield Source(f"logs/{name}{'.previous' if previous else ''}.log", fetch)


def _versions(connection: client.ApiClient) -> str:
    server: Any = client.VersionApi(connection).get_code()
    return yaml.safe_dump({"colocation": version("colocation"), "kubernetes": server.git_version})
