"""Tables that somebody spoiled are refused in words."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colocation.spark.catalog import InvalidObject, parse_table

from .test_catalog import ITEM

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
TIMES = JSON | st.sampled_from(["soon", "2026-11-21", "2026-11-21T04:00:00", "0001-01-01T00:00:00+14:00"])
SNAPSHOTS = JSON | st.fixed_dictionaries(
    {"id": JSON, "manifest": JSON | st.just("sha256:../../../etc/passwd"), "committedAt": TIMES},
    optional=dict.fromkeys(("partitions", "files", "rows", "bytes"), JSON),
)
STATUSES = JSON | st.fixed_dictionaries(
    {}, optional={"snapshot": SNAPSHOTS, "history": JSON | st.lists(SNAPSHOTS, max_size=2), "group": JSON,
                  "accepted": JSON, "columns": JSON, "conditions": JSON},
)  # fmt: skip
GOOD = {"id": 1, "manifest": "sha256:" + "0" * 64, "committedAt": "2026-11-21T04:00:00Z"}


def item(name: str, **parts: Any) -> dict[str, Any]:
    return {**ITEM, "metadata": {**ITEM["metadata"], "name": name}, **parts}


def refusal(status: Any) -> str:
    """Why a table with this status is not relied on; empty when it is."""
    try:
        parse_table(item("hostile", status=status)).check_status()
    except InvalidObject as error:
        return str(error)
    return ""


@settings(max_examples=300, deadline=None)
@given(STATUSES)
@example({"snapshot": {**GOOD, "committedAt": "soon"}})
@example({"snapshot": {**GOOD, "committedAt": "2026-11-21T04:00:00"}})
@example({"snapshot": {**GOOD, "manifest": "x"}})
@example({"snapshot": GOOD, "history": [{**GOOD, "committedAt": "soon"}]})
@example({"snapshot": {**GOOD, "rows": 2**70}})
def test_no_status_is_believed(status: Any) -> None:
    """A table is understood, or refused with the reason, the field and what is allowed; no text breaks a line."""
    message = refusal(status)
    if message:
        assert message.startswith("InvalidStatus: the status of table shop.hostile cannot be understood: ")
        assert message.isprintable() and message.isascii()


def test_a_committed_time_without_a_zone_is_named() -> None:
    """The message says which field of which table."""
    message = refusal({"snapshot": GOOD, "history": [{**GOOD, "committedAt": "2026-11-21T04:00:00"}]})
    assert 'status.history.0.committedAt is "2026-11-21T04:00:00": allowed is a time of RFC 3339 with a' in message
    assert message.endswith("restore it, or load all of the table anew with mode overwrite")


@pytest.mark.parametrize("spec", [None, {"of": "a newer version"}])
def test_a_spec_that_is_missing_or_newer_is_named_too(spec: Any) -> None:
    """With its own reason."""
    with pytest.raises(InvalidObject, match=r"^InvalidSpec: the spec of table shop\."):
        parse_table(item("hostile", spec=spec))
