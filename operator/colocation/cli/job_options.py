"""What ``load`` and ``sql`` take of the user for the pods of their Spark application."""

from typing import Any

import click

from ..model.base import Frozen
from .manifest_files import read_manifest
from .options import bundle


class JobOptions(Frozen):
    """A base application, and the two fields of it that are most often wanted alone."""

    application: str | None = None
    image: str | None = None
    service_account: str | None = None

    def base(self) -> dict[str, Any] | None:
        """The base application with the options in it; None when nothing was given.

        Raises:
            WrongUsage: the file cannot be read.
        """
        if self == JobOptions():
            return None
        empty: dict[str, Any] = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "spec": {}}
        base = read_manifest(self.application) if self.application else empty
        spec = base.setdefault("spec", {})
        if self.image:
            spec["image"] = self.image
        if self.service_account:
            for pod in ("driver", "executor"):
                spec[pod] = {**(spec.get(pod) or {}), "serviceAccount": self.service_account}
        return base


job_options = bundle(
    "job",
    JobOptions,
    click.option(
        "--application", default=None, help="SparkApplication to build on (volumes, resources, storage); - reads stdin."
    ),
    click.option("--image", default=None, help="Spark image; default: the base application's or the installation's."),
    click.option("--service-account", default=None, help="ServiceAccount of driver and executors; default: spark."),
)
"""How the pods of a job look, as one ``job: JobOptions``."""
