"""The kinds of Spark application that can be submitted, and what tells them apart."""

from collections.abc import Mapping
from typing import Any, Literal

from ..model.base import Frozen
from .errors import ManifestError

Flavour = Literal["kubeflow", "scheduled", "apache"]


class ApplicationKind(Frozen):
    """One kind in one API version. ``operator``: whose it is, for messages."""

    group: str
    version: str
    kind: str
    plural: str
    flavour: Flavour
    operator: str

    @property
    def api_version(self) -> str:
        """As manifests say it."""
        return f"{self.group}/{self.version}"

    @property
    def resource(self) -> str:
        """As kubectl takes it: both operators have ``sparkapplications``."""
        return f"{self.plural}.{self.group}"


KUBEFLOW_GROUP, APACHE_GROUP = "sparkoperator.k8s.io", "spark.apache.org"
KUBEFLOW_OPERATOR, APACHE_OPERATOR = "Kubeflow's Spark operator", "Apache's Spark operator"

KUBEFLOW = ApplicationKind(
    group=KUBEFLOW_GROUP, version="v1beta2", kind="SparkApplication", plural="sparkapplications", flavour="kubeflow",
    operator=KUBEFLOW_OPERATOR,
)  # fmt: skip
SCHEDULED = ApplicationKind(
    group=KUBEFLOW_GROUP, version="v1beta2", kind="ScheduledSparkApplication", plural="scheduledsparkapplications",
    flavour="scheduled", operator=KUBEFLOW_OPERATOR,
)  # fmt: skip
APACHE_VERSIONS = ("v1", "v1beta1", "v1alpha1")
"""Apache's spec is the same in all three for what we read and write."""
APACHE = tuple(
    ApplicationKind(
        group=APACHE_GROUP, version=version, kind="SparkApplication", plural="sparkapplications", flavour="apache",
        operator=APACHE_OPERATOR,
    )
    for version in APACHE_VERSIONS
)  # fmt: skip
KINDS = (KUBEFLOW, SCHEDULED, *APACHE)


def kind_of(application: Mapping[str, Any]) -> ApplicationKind:
    """Which kind a manifest is.

    Raises:
        ManifestError: none of them; the message lists them.
    """
    kind, version = application.get("kind"), application.get("apiVersion")
    for known in KINDS:
        if (known.kind, known.api_version) == (kind, version):
            return known
    allowed = "; ".join(f"{known.kind}, {known.api_version}" for known in KINDS)
    raise ManifestError(f"the manifest is kind {kind!r}, apiVersion {version!r}; allowed: {allowed}")
