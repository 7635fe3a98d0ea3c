"""The agent's Prometheus metrics; one registry per agent, so that tests can run several."""

from prometheus_client import CollectorRegistry

from colocation.common.collectors import counter, gauge
from colocation.model import metrics as table
from colocation.model.conditions import Reason

CERTIFICATE_REASONS = (Reason.CERTIFICATE_MISSING, Reason.CERTIFICATE_REFUSED, Reason.CERTIFICATE_EXPIRING)


class Metrics:
    """Counters and gauges, described in ``model.metrics``.

    Args:
        clone_account: account of the clone Jobs.
    """

    def __init__(self, clone_account: str = "") -> None:
        registry = self.registry = CollectorRegistry()
        self._clone_account = clone_account
        self.requests = counter(table.REQUESTS, registry)
        self._served_bytes = counter(table.SERVED_BYTES, registry)
        self._cloned_bytes = counter(table.CLONED_BYTES, registry)
        self.received_bytes = counter(table.RECEIVED_BYTES, registry)
        self.active_transfers = gauge(table.ACTIVE_TRANSFERS, registry)
        self.damaged_files = counter(table.DAMAGED_FILES, registry)
        self.scrubbed_bytes = counter(table.SCRUBBED_BYTES, registry)
        self.scrub_backlog_files = gauge(table.SCRUB_BACKLOG_FILES, registry)
        self.scrub_backlog_bytes = gauge(table.SCRUB_BACKLOG_BYTES, registry)
        self.oldest_verification_seconds = gauge(table.OLDEST_VERIFICATION, registry)
        self.upkeep_failures = counter(table.UPKEEP_FAILURES, registry)
        self.capacity_bytes = gauge(table.DISK_CAPACITY, registry)
        self.free_bytes = gauge(table.DISK_FREE, registry)
        self.disk_fault = gauge(table.DISK_FAULT, registry)
        self.certificate_end = gauge(table.CERTIFICATE_END, registry)
        self.certificate_fault = gauge(table.CERTIFICATE_FAULT, registry)

    def count_sent(self, account: str, sent_bytes: int) -> None:
        """Count bytes of files that were sent to an account."""
        self._served_bytes.inc(sent_bytes)
        if account == self._clone_account:
            self._cloned_bytes.inc(sent_bytes)
