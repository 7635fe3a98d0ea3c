"""What ``load`` and ``sql`` take of the user for the pods of their Spark application."""

from typing import Any, Literal, get_args

import click

from ..model.base import Frozen
from ..submit.errors import ManifestError
from ..submit.jobs import empty_base, set_pods
from ..submit.kinds import APACHE, KUBEFLOW, ApplicationKind
from .cluster import Cluster
from .manifest_files import read_manifest
from .options import bundle

Operator = Literal["kubeflow", "apache"]


class JobOptions(Frozen):
    """A base application, the two fields of it that are most often wanted alone, and the operator that is to run it."""

    application: str | None = None
    image: str | None = None
    service_account: str | None = None
    operator: Operator | None = None

    def base(self, cluster: Cluster, *, direct: bool) -> dict[str, Any]:
        """The base application with the options in it, of the operator that is there.

        ``direct``: it runs without an operator, so any form of it will do.

        Raises:
            WrongUsage: the file cannot be read.
            ManifestError: the file's application is another operator's than the chosen one.
        """
        if self.application:
            base = read_manifest(self.application)
            self._check_operator(base)
        else:
            base = empty_base(KUBEFLOW if direct else choose_kind(cluster, self.operator))
        set_pods(base, self.image, self.service_account)
        return base

    def _check_operator(self, base: dict[str, Any]) -> None:
        allowed = {"kubeflow": (KUBEFLOW,), "apache": APACHE}.get(self.operator or "", (KUBEFLOW, *APACHE))
        versions = [kind.api_version for kind in allowed]
        if self.operator and base.get("apiVersion") not in versions:
            raise ManifestError(
                f"the base application's apiVersion is {base.get('apiVersion')!r}; allowed with --operator "
                f"{self.operator}: {', '.join(versions)}"
            )


def choose_kind(cluster: Cluster, operator: Operator | None) -> ApplicationKind:
    """The kind of application to make: the chosen operator's, else that of the one that is installed.

    Kubeflow's comes first where both are; where neither is, creating its application says what is missing.
    """
    served = cluster.api_versions(APACHE[0].group) if operator != "kubeflow" else ()
    apache = next((kind for kind in APACHE if kind.version in served), None)
    if operator == "apache":
        return apache or APACHE[0]
    if apache and operator is None and KUBEFLOW.version not in cluster.api_versions(KUBEFLOW.group):
        return apache
    return KUBEFLOW


job_options = bundle(
    "job",
    JobOptions,
    click.option(
        "--application", default=None, help="SparkApplication to build on (volumes, resources, storage); - reads stdin."
    ),
    click.option(
        "--operator", type=click.Choice(get_args(Operator)), default=None,
        help="Whose Spark operator runs it; default: the base application's, else the installed one.",
    ),
    click.option("--image", default=None, help="Spark image; default: the base application's or the installation's."),
    click.option("--service-account", default=None, help="ServiceAccount of driver and executors; default: spark."),
)
"""How the pods of a job look, as one ``job: JobOptions``."""
