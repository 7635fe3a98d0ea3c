"""Options for a command's Spark application: its pods, configuration, and credentials."""

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import click

from ...model.base import Frozen
from ...submit.manifest import APACHE, KUBEFLOW, ApplicationKind, ManifestError
from ...submit.prepare import Overrides, override
from ...submit.programs import empty_base
from ..cluster import Cluster
from ..terminal.options import Decorator, bundle, read_manifest

Operator = Literal["kubeflow", "apache"]
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_IMAGE = re.compile(r"\S+")


class JobOptions(Frozen):
    """A base application, the options that override it, and the operator that is to run it."""

    application: str | None = None
    operator: Operator | None = None
    overrides: Overrides = Overrides()

    def base(self, cluster: Cluster, *, direct: bool) -> dict[str, Any]:
        """The base application with the options in it, for the operator that is installed.

        ``direct``: it runs without an operator, so either operator's kind will do.

        Raises:
            UsageError: an operator is chosen for what runs without one.
            WrongUsage: the file cannot be read.
            ManifestError: the file's application is another operator's than the chosen one.
        """
        if direct and self.operator:
            raise click.UsageError(
                f"--direct runs without a Spark operator, but --operator is {self.operator}: leave one of them out"
            )
        if self.application:
            base = read_manifest(self.application)
            self._check_operator(base)
        else:
            base = empty_base(KUBEFLOW if direct else choose_kind(cluster, self.operator))
        override(base, self.overrides)
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

    Kubeflow's comes first where both are installed; where neither is, creating the application fails with
    what is missing.
    """
    served = cluster.api_versions(APACHE[0].group) if operator != "kubeflow" else ()
    apache = next((kind for kind in APACHE if kind.version in served), None)
    if operator == "apache":
        return apache or APACHE[0]
    if apache and operator is None and KUBEFLOW.version not in cluster.api_versions(KUBEFLOW.group):
        return apache
    return KUBEFLOW


def _overrides(settings: tuple[str, ...], secrets: tuple[str, ...], **pods: Any) -> Overrides:
    return Overrides(conf=parse_settings(settings), secrets=secrets, **pods)


def parse_settings(settings: tuple[str, ...]) -> Mapping[str, str]:
    """``conf=value`` words as a mapping.

    Raises:
        UsageError: a word without ``=``.
    """
    pairs = [setting.partition("=") for setting in settings]
    for setting, (key, sign, _) in zip(settings, pairs, strict=True):
        if not sign or not key:
            raise click.UsageError(f"--set takes CONF=VALUE, given {setting!r}")
    return {key: value for key, _, value in pairs}


def _names(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    """The name of an object in the namespace, or several."""
    for name in value if isinstance(value, tuple) else (value,):
        if name is not None and not _OBJECT_NAME.fullmatch(name):
            raise click.BadParameter(f"{name!r} given; allowed: a name of lower-case letters, digits, dashes and dots")
    return value


def _image(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _IMAGE.fullmatch(value):
        raise click.BadParameter(f"{value!r} given; allowed: an image, e.g. registry.example.com/data/spark:1.0")
    return value


OVERRIDES: tuple[Decorator, ...] = (
    click.option("--set", "settings", multiple=True, metavar="CONF=VALUE", help="Spark configuration; repeatable."),
    click.option(
        "--secret", "secrets", multiple=True, metavar="NAME", callback=_names,
        help="Secret of the namespace. Driver and executors get its keys as environment variables, e.g. "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; repeatable.",
    ),
    click.option(
        "--image", default=None, callback=_image,
        help="Spark image; default: the application's, else the installation's.",
    ),
    click.option(
        "--service-account", default=None, callback=_names,
        help="ServiceAccount of driver and executors; default: spark.",
    ),
)  # fmt: skip

override_options = bundle("overrides", _overrides, *OVERRIDES)
"""Options that override a manifest, as one ``overrides: Overrides``."""


def _job_options(application: str | None, operator: Operator | None, **overrides: Any) -> JobOptions:
    return JobOptions(application=application, operator=operator, overrides=_overrides(**overrides))


job_options = bundle(
    "job",
    _job_options,
    click.option(
        "--application", default=None, metavar="FILE",
        help="SparkApplication to build on (volumes, resources, storage); - reads standard input.",
    ),
    click.option(
        "--operator", type=click.Choice(get_args(Operator)), default=None,
        help="Spark operator that runs it; default: that of --application, else the installed one.",
    ),
    *OVERRIDES,
)  # fmt: skip
"""The application of a job, as one ``job: JobOptions``."""
