"""Fair shares: how they are rounded, and when holdings are even."""

from collections import Counter

import pytest

from colocation.planner.evenness.shares import fair_shares, is_even


@pytest.mark.parametrize(
    ("weights", "buckets", "either_way", "bounds"),
    [
        pytest.param((1.02, 0.98), 2, True, ((1, 1), (1, 1)), id="nearly whole: whole, for several groups together"),
        pytest.param((1.02, 0.98), 2, False, ((1, 2), (0, 1)), id="nearly whole: as it is, for one group"),
        pytest.param((1.06, 0.94), 2, True, ((1, 2), (0, 1)), id="not so nearly"),
        pytest.param((3, 1), 4, True, ((3, 3), (1, 1)), id="whole"),
        pytest.param((1.97, 0.03), 2, True, ((2, 2), (0, 1)), id="next to nothing may still be one"),
    ],
)
def test_shares_are_rounded_down_or_up(
    weights: tuple[float, ...], buckets: int, either_way: bool, bounds: tuple[tuple[int, int], ...]
) -> None:
    """Disks of nearly the same size do not differ by two replicas."""
    names = dict(zip("ab", weights, strict=True))
    shares = fair_shares(names, {}, buckets, 1, either_way=either_way)
    assert tuple(shares.bounds[name] for name in "ab") == bounds


@pytest.mark.parametrize(
    ("counts", "takers", "even"),
    [
        pytest.param({"a": 2, "b": 1, "c": 1}, "abc", True, id="as the shares are"),
        pytest.param({"a": 2, "b": 2}, "ab", True, id="the empty one takes nothing"),
        pytest.param({"a": 2, "b": 2}, "abc", False, id="the empty one could take one"),
        pytest.param({"a": 3, "b": 1}, "abc", False, id="so it could from the heavy one"),
        pytest.param({"a": 2, "b": 1, "d": 1}, "abc", False, id="one that may not hold any has one"),
    ],
)
def test_holdings_are_even_when_no_move_comes_nearer_to_the_shares(
    counts: dict[str, int], takers: str, even: bool
) -> None:
    """Of nodes that have shares, by those that may take."""
    weights = {"a": 2.0, "b": 1.0, "c": 1.0}
    shares = fair_shares(weights, {}, 4, 1)
    assert is_even(shares, Counter(counts), {name: weights[name] for name in takers}) is even
