"""An API server of which helm asks, while it renders the chart, what is there: ``lookup`` in templates."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from .conftest import CHART, IMAGE, ChartRefused

NAMESPACE = "colocation-system"
PLACES = {
    "Secret": f"/api/v1/namespaces/{NAMESPACE}/secrets",
    "DaemonSet": f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}


def secret(name: str, release: str | None, **data: str) -> dict[str, Any]:
    """A Secret; ``release``: of helm, which made it; None = another program did."""
    marks = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": NAMESPACE}
    by_helm = {"labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": marks} if release else {}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE, **by_helm},
            "data": data}  # fmt: skip


def rendered_with(helm: Path, folder: Path, objects: list[dict[str, Any]], *settings: str) -> list[dict[str, Any]]:
    """``objects``: what is there, each of a kind of ``PLACES``.

    Returns: the chart's objects as ``helm upgrade --set …`` of release ``colocation`` would apply them to this cluster.

    Raises:
        ChartRefused: helm would not, as for an object that it has not made.
    """
    command = [str(helm), "template", "colocation", str(CHART), "--namespace", NAMESPACE, *IMAGE,
               *(word for setting in settings for word in ("--set", setting))]  # fmt: skip
    there = {f"{PLACES[one['kind']]}/{one['metadata']['name']}": one for one in objects}
    with _serving({**_kinds(_objects(command)), **there}) as url:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": url}}], "users": [{"name": "it", "user": {}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }))  # fmt: skip
        asking = ["--dry-run=server", "--disable-openapi-validation", "--kubeconfig", str(kubeconfig)]
        return _objects([*command, *asking])


def _objects(command: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ChartRefused(done.stderr)
    return [item for item in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if item]


def _kinds(objects: list[dict[str, Any]]) -> dict[str, Any]:
    """What the API server reports of the kinds of these objects."""
    answers: dict[str, Any] = {
        "/version": VERSION, "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": []},
    }  # fmt: skip
    for version in {item["apiVersion"] for item in objects}:
        kinds = {(one["kind"], "namespace" in one["metadata"]) for one in objects if one["apiVersion"] == version}
        resources = [
            {"name": f"{kind.lower()}s", "namespaced": is_namespaced, "kind": kind, "verbs": ["get"]}
            for kind, is_namespaced in kinds
        ]
        path = "/api/v1" if version == "v1" else f"/apis/{version}"
        answers[path] = {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
        if version != "v1":
            named = {"groupVersion": version, "version": version.partition("/")[2]}
            group = {"name": version.partition("/")[0], "versions": [named], "preferredVersion": named}
            answers["/apis"]["groups"].append(group)
    return answers


@contextmanager
def _serving(answers: Mapping[str, Any]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(found or status).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
