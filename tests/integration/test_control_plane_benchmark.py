"""`make bench-control-plane` at its smallest: it measures what it says, and a quiet operator is quiet."""

from pathlib import Path

from benchmarks.control_plane import Size, measure

FIELDS = {
    "groups", "tables", "nodes", "api_calls_per_minute_quiet", "watch_events", "reconcile_p50_ms", "reconcile_p99_ms",
    "peak_rss_mib",
}  # fmt: skip


def test_quiet_operator_asks_for_nothing(tmp_path: Path) -> None:
    """While only nodes' heartbeats come it sends no request but to begin watches anew, and agents answer 304."""
    measured = measure(Size(groups=3, tables=6, nodes=3, quiet_seconds=11, changes=5), tmp_path)
    assert measured.keys() >= FIELDS
    assert (measured["groups"], measured["tables"], measured["nodes"]) == (3, 6, 3)
    assert all(call.startswith("watch ") for call in measured["by_call"])
    assert measured["inventories_quiet"] == measured["inventories_unchanged"] > 0
    assert measured["watch_events"] >= 3
    assert measured["calls_per_resync"] == 5 + 3, measured["by_call_resync"]
    assert 0 < measured["reconcile_p50_ms"] <= measured["reconcile_p99_ms"]
