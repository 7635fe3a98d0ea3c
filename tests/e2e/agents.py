"""Agents as a client on the pod network sees them, with tokens of the test's choice."""

import contextlib
import json
import ssl
from collections.abc import Mapping

import urllib3

from colocation.model.names import AGENT_TLS_SERVER_NAME, TOKEN_AUDIENCE, spark_config_map_name
from demo import workload
from demo.shell import kubectl, kubectl_json


def urls() -> dict[str, str]:
    """Each node's agent, from the ConfigMap that Spark uses."""
    found: dict[str, str] = json.loads(_config_map()["agents.json"])
    return found


def token(service_account: str, namespace: str, *, audience: str = TOKEN_AUDIENCE) -> str:
    """A fresh token of a ServiceAccount."""
    return kubectl("create", "token", service_account, "-n", namespace, "--audience", audience).strip()


def request(url: str, method: str, target: str, *, bearer: str | None = None, body: bytes | None = None,
            headers: Mapping[str, str] | None = None) -> urllib3.BaseHTTPResponse:
    """One request, the path sent as given, byte for byte."""
    host, _, port = url.removeprefix("https://").partition(":")
    authorization = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    context = ssl.create_default_context(cadata=_config_map()["ca.crt"])
    connection = urllib3.connection.HTTPSConnection(host, int(port), timeout=20, ssl_context=context,
                                                    server_hostname=AGENT_TLS_SERVER_NAME)
    with contextlib.closing(connection):
        connection.request(method, target, body=body, headers={**authorization, **(headers or {})})
        return connection.getresponse()


def directory(table: str) -> str:
    """The table's folder name, ``<table>-<uid8>``."""
    uid = kubectl_json("get", "colocatedtable", table, "-n", workload.NAMESPACE)["metadata"]["uid"]
    return f"{table}-{uid[:8]}"


def _config_map() -> dict[str, str]:
    name = spark_config_map_name(workload.GROUP)
    found: dict[str, str] = kubectl_json("get", "configmap", name, "-n", workload.NAMESPACE)["data"]
    return found
