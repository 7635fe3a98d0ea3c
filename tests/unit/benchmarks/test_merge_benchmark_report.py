"""The rows of `make bench-merge`: medians, ratios to ours, and every missed goal by name."""

from typing import Any

import pytest

from benchmarks.merges.report import misses, row_of, with_ratios

OURS, COPY, VECTORS = "colocated", "iceberg_copy_on_write", "delta_deletion_vectors"
UPDATE, INSERT = "update_10_percent", "insert_select_of_join"


def rows(workload: str, exchanges: int = 0, sorts: int = 0, **seconds: float) -> list[dict[str, Any]]:
    """One row of each variant, with ratios."""
    plain = [row_of(workload, variant, [{"seconds": value, "exchanges": exchanges, "sorts": sorts}], rows_changed=7)
             for variant, value in seconds.items()]  # fmt: skip
    return with_ratios(plain)


def test_a_row_holds_medians() -> None:
    """The median of each figure counts, not the mean."""
    runs = [{"seconds": seconds, "bytes_written": 10 * seconds} for seconds in (1.0, 2.0, 9.0)]
    assert row_of(UPDATE, OURS, runs, rows_changed=7) == {
        "workload": UPDATE, "variant": OURS, "seconds_median": 2.0, "bytes_written": 20.0, "rows_changed": 7,
    }  # fmt: skip


def test_ratios_are_to_ours_of_the_same_workload() -> None:
    """A run of peers only has none."""
    assert [row["ratio"] for row in rows(UPDATE, colocated=2.0, iceberg_copy_on_write=5.0)] == [1.0, 2.5]
    assert "ratio" not in rows(UPDATE, iceberg_copy_on_write=5.0)[0]


@pytest.mark.parametrize(("measured", "said"), [
    pytest.param(rows(UPDATE, **{OURS: 1.0, COPY: 2.0, VECTORS: 0.5}), [], id="deletion vectors may be faster"),
    pytest.param(rows(UPDATE, **{OURS: 2.0, COPY: 1.0}), [f"{UPDATE}: {COPY} took 0.5 of our seconds"], id="copy"),
    pytest.param(rows(INSERT, **{OURS: 2.0, VECTORS: 1.0}), [f"{INSERT}: {VECTORS} took 0.5 of our seconds"],
                 id="any peer"),
    pytest.param(rows(UPDATE, exchanges=1, sorts=2, **{OURS: 1.0, COPY: 2.0}),
                 [f"{UPDATE}: 1 exchanges, goal 0", f"{UPDATE}: 2 sorts, goal 0"], id="shuffle and sort"),
])  # fmt: skip
def test_every_miss_is_named(measured: list[dict[str, Any]], said: list[str]) -> None:
    """Peers that copy must not be faster, and our plans hold neither a shuffle nor a sort."""
    assert misses(measured) == said
