"""Compares the cluster's CRDs with this release's: Helm never changes CRDs, so those there may be older."""

import logging
from collections.abc import Mapping

from ..kube.api import Api, Resource
from ..kube.errors import ClusterError
from ..model.conditions import Reason
from ..schema.comparison import missing_fields
from ..schema.crds import group_crd, table_crd

logger = logging.getLogger(__name__)

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


class Kinds:
    """What the CRDs lacked when they were looked at last. ``missing``: by plural.

    Args:
        api: the API server.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._wanted = (group_crd(), table_crd())
        self.missing: Mapping[str, tuple[str, ...]] = {}

    @property
    def lost_fields(self) -> tuple[str, ...]:
        """Fields of statuses that the API server does not keep: ``colocationgroups status.x``."""
        return tuple(
            f"{plural} {field}"
            for plural, fields in self.missing.items()
            for field in fields
            if field.startswith("status.")
        )

    async def look(self) -> None:
        """Look at them now; what cannot be read stays as it was known."""
        found = dict(self.missing)
        for wanted in self._wanted:
            try:
                definition = await self._api.find(CRDS, wanted["metadata"]["name"])
                if definition is not None:
                    found[wanted["spec"]["names"]["plural"]] = missing_fields(wanted, definition)
            except (ClusterError, KeyError, TypeError, IndexError, AttributeError) as error:
                logger.warning("CRD %s cannot be compared with this release's: %r", wanted["metadata"]["name"], error)
        if found != self.missing:
            self._report(found)
        self.missing = found

    def _report(self, found: Mapping[str, tuple[str, ...]]) -> None:
        for plural, fields in found.items():
            if fields:
                logger.warning("%s: %s lack %s", Reason.KINDS_OUTDATED, plural, ", ".join(fields))
