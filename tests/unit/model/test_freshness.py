"""A verdict holds as long as the operator shows that it lives."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.model.base import parse_time
from colocation.model.reader_rules import (
    ALLOWED_SKEW_SECONDS,
    CURRENT,
    SIGN_OF_LIFE_KEY,
    SignOfLife,
    judge_freshness,
    read_sign_of_life,
)

RENEWED_AT = "2026-11-21T04:00:00Z"
TIME = datetime(2026, 11, 21, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("age_seconds", "is_current"),
    [
        pytest.param(0, True, id="now"),
        pytest.param(40 + ALLOWED_SKEW_SECONDS, True, id="just valid, clocks apart"),
        pytest.param(41 + ALLOWED_SKEW_SECONDS, False, id="too old"),
        pytest.param(-ALLOWED_SKEW_SECONDS, True, id="the operator's clock is ahead"),
        pytest.param(-ALLOWED_SKEW_SECONDS - 1, False, id="renewed in the future: it would hold for ever"),
    ],
)
def test_limits(age_seconds: int, is_current: bool) -> None:
    """The sign's duration and the allowed skew of clocks, to the second."""
    found = judge_freshness(RENEWED_AT, 40, TIME + timedelta(seconds=age_seconds), "Lease colocation-operator")
    assert found.is_current is is_current


def test_the_message_shows_since_when() -> None:
    """And what was read; it is the same as long as the operator is silent."""
    later = [judge_freshness(RENEWED_AT, 40, TIME + timedelta(hours=hours), "Lease x") for hours in (1, 2)]
    assert later[0] == later[1]
    assert later[0].explanation == (
        "OperatorSilent: the operator has given no sign of life since 2026-11-21T04:00:00Z (Lease x); what it reported "
        "on the group may be out of date"
    )
    assert CURRENT.explanation == ""


@given(st.text() | st.datetimes().map(datetime.isoformat) | st.just("9999-12-31T23:59:59-23:59"))
def test_a_time_that_shows_nothing_is_no_sign_of_life(text: str) -> None:
    """Whatever stands there, the answer is a value."""
    assert not judge_freshness(text, 40, TIME, "the Lease").is_current


def minutes_from_utc(minutes: int) -> timezone:
    return timezone(timedelta(minutes=minutes))


@given(st.datetimes(datetime(1001, 1, 1), datetime(9998, 1, 1), timezones=st.integers(-720, 720).map(minutes_from_utc)))
def test_times_with_a_zone_are_read(time: datetime) -> None:
    """In whichever zone they were written."""
    assert parse_time(time.isoformat()) == time


def test_the_sign_of_life_is_what_the_operator_writes() -> None:
    """Its JSON is the contract between the operator and all readers; a ConfigMap of an older operator has none."""
    text = (
        '{"renewTime": "2026-11-21T04:00:00Z", "validSeconds": 600, "leaseNamespace": "colocation-system", '
        '"leaseName": "colocation-operator", "of": "a newer operator"}'
    )
    sign = SignOfLife(renew_time=RENEWED_AT, valid_seconds=600, lease_namespace="colocation-system")
    assert read_sign_of_life({SIGN_OF_LIFE_KEY: text}) == sign
    assert sign.to_json_dict() == {
        "renewTime": RENEWED_AT, "validSeconds": 600, "leaseNamespace": "colocation-system",
        "leaseName": "colocation-operator",
    }  # fmt: skip
    assert read_sign_of_life({"agents.json": "{}"}) is None


@pytest.mark.parametrize("text", ["", "{}", "null", "[1]", '{"renewTime": 1, "validSeconds": 1}',
                                  '{"renewTime": "x", "validSeconds": 1e99}', '{"renewTime": "x", "validSeconds": 0}'])
def test_a_sign_that_cannot_be_read_is_an_error(text: str) -> None:
    """Its text is in the message."""
    with pytest.raises(ValueError, match=r"operator\.json of the group's ConfigMap cannot be read"):
        read_sign_of_life({SIGN_OF_LIFE_KEY: text})
