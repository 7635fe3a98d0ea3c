"""Collectors of Prometheus' client library, made from the table of metrics (``model.metrics``)."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from ..model.metrics import Metric

disable_created_metrics()  # a series more per counter, of which Prometheus makes nothing


def gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    """A gauge of the table."""
    return Gauge(metric.base_name, metric.meaning, metric.labels, registry=registry)


def counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    """A counter of the table."""
    return Counter(metric.base_name, metric.meaning, metric.labels, registry=registry)


def histogram(metric: Metric, upper_ends: Sequence[float], registry: CollectorRegistry) -> Histogram:
    """A histogram of the table; ``upper_ends`` of its buckets."""
    return Histogram(metric.base_name, metric.meaning, metric.labels, registry=registry, buckets=upper_ends)
