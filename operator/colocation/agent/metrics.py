"""The agent's Prometheus metrics; one registry per agent, so that tests may run several."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from colocation.model.conditions import Reason

PREFIX = "colocation_agent"
CERTIFICATE_REASONS = (Reason.CERTIFICATE_MISSING, Reason.CERTIFICATE_REFUSED, Reason.CERTIFICATE_EXPIRING)
DISK_REASONS = (Reason.DISK_MISSING, Reason.DISK_FAILING, Reason.DISK_READ_ONLY, Reason.DISK_FULL)


class Metrics:
    """Counters and gauges; names are part of what users see (docs/reference/agent-api.md)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            f"{PREFIX}_requests", "Requests by verb and HTTP status.", ["verb", "code"], registry=self.registry
        )
        self.served_bytes = Counter(f"{PREFIX}_served_bytes", "Bytes of files sent.", registry=self.registry)
        self.received_bytes = Counter(f"{PREFIX}_received_bytes", "Bytes of files received.", registry=self.registry)
        self.active_transfers = self._gauge("active_transfers", "Files being sent or received now.")
        self.damaged_files = Counter(
            f"{PREFIX}_damaged_files_found", "Files found with another content than before.", registry=self.registry
        )
        self.scrubbed_bytes = Counter(f"{PREFIX}_scrubbed_bytes", "Bytes read by the scrub.", registry=self.registry)
        self.scrub_backlog_files = self._gauge("scrub_backlog_files", "Files that the scrub should have read by now.")
        self.scrub_backlog_bytes = self._gauge("scrub_backlog_bytes", "Bytes that the scrub should have read by now.")
        self.oldest_verification_seconds = self._gauge(
            "oldest_verification_age_seconds", "Age of the verification of the file verified longest ago."
        )
        self.capacity_bytes = self._gauge("disk_capacity_bytes", "Size of the data root's file system.")
        self.disk_fault = Gauge(
            f"{PREFIX}_disk_fault", "1 = this is wrong with the disk.", ["reason"], registry=self.registry
        )
        self.certificate_end = self._gauge(
            "certificate_end_timestamp_seconds", "When this node's certificate ends; Unix time, 0 = there is none."
        )
        self.certificate_fault = Gauge(
            f"{PREFIX}_certificate_fault", "1 = this is wrong with the certificate.", ["reason"],
            registry=self.registry,
        )  # fmt: skip
        self.free_bytes = self._gauge("disk_free_bytes", "Room on the data root's file system.")

    def _gauge(self, name: str, documentation: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", documentation, registry=self.registry)
