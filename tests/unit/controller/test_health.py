"""Whether the operator is alive."""

from datetime import UTC, datetime, timedelta

import pytest

from colocation.controller.http import MAX_PASS_AGE, is_alive

START = datetime(2026, 11, 21, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("last_pass_at", "now", "alive"),
    [
        pytest.param(None, START + MAX_PASS_AGE, True, id="starting"),
        pytest.param(None, START + MAX_PASS_AGE + SECOND, False, id="never made a pass"),
        pytest.param(START + MAX_PASS_AGE, START + 2 * MAX_PASS_AGE, True, id="passes happen"),
        pytest.param(START + SECOND, START + MAX_PASS_AGE + 2 * SECOND, False, id="the loop hangs"),
    ],
)
def test_alive_means_passes_happen(last_pass_at: datetime | None, now: datetime, alive: bool) -> None:
    """kopf's own liveness says only that its event loop turns."""
    assert is_alive(START, last_pass_at, now) is alive
