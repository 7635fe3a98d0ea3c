"""Partitions' values as text that Spark casts back to them."""

import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from colocation.spark.write.maintenance import PartitionValue, partition_text

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), ("", ""), ("01", "01"), (7, "7"), (-1.5, "-1.5"), (True, "true"), (False, "false"),
        (Decimal("1.50"), "1.50"), (Decimal("1E+3"), "1000"), (datetime.date(24, 1, 2), "0024-01-02"),
        (datetime.datetime(2024, 1, 1), "2024-01-01 00:00:00"),
        (datetime.datetime(2024, 1, 1, 9, 5, 7, 120000), "2024-01-01 09:05:07.12"),
        (datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), "2024-01-01 00:00:00Z"),
        (datetime.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=datetime.UTC), "2024-01-01 00:00:00.000001Z"),
        (datetime.datetime(2024, 7, 1, tzinfo=BERLIN), "2024-07-01 00:00:00+02:00"),
        (datetime.datetime(2024, 10, 27, 2, 30, 0, 500000, tzinfo=BERLIN), "2024-10-27 02:30:00.5+02:00"),
        (datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN), "2024-10-27 02:30:00+01:00"),
        (datetime.datetime(1880, 1, 1, tzinfo=BERLIN), "1880-01-01 00:00:00+00:53:28"),
    ],
)  # fmt: skip
def test_values_as_text(value: PartitionValue, text: str) -> None:
    """Times of one instant may be written with any offset; without one they are of the session's zone."""
    assert partition_text(value) == text


@pytest.mark.parametrize("value", [b"a", ["a"], datetime.time(1), datetime.timedelta(1)])
def test_other_values_are_refused(value: object) -> None:
    """Their text in Python would match no partition, and dropping none is no error."""
    with pytest.raises(ValueError, match=rf"is of type {type(value).__name__}; allowed are str, int, .* give another"):
        partition_text(value)  # type: ignore[arg-type]
