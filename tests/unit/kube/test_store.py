"""The copy of the cluster's objects: whatever order words arrive in, the newest stands."""

from itertools import permutations
from typing import Any

import pytest

from colocation.kube.store import Store


def body(version: int, value: str = "", name: str = "a") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop", "resourceVersion": str(version)}, "value": value}


def store() -> Store[str]:
    return Store(lambda it: it["value"] or None)


def replace(one: Store[str], bodies: list[dict[str, Any]], version: int) -> bool:
    """Whether this full list changed anything."""
    listing = one.listing()
    listing.begin()
    for each in bodies:
        listing.take(each)
    listing.end(version)
    return listing.has_changed


WORDS = [("put", 1, "old"), ("put", 3, "new"), ("list", 2, "middle")]


ORDERS = {"-".join(f"{kind}{version}" for kind, version, _ in words): words for words in permutations(WORDS)}


@pytest.mark.parametrize("words", list(ORDERS.values()), ids=list(ORDERS))
def test_newest_word_stands_in_any_order(words: list[tuple[str, int, str]]) -> None:
    """Watch events, lists and answers to writes race."""
    one = store()
    for kind, version, value in words:
        if kind == "put":
            one.put(body(version, value))
        else:
            replace(one, [body(version, value)], version)
    assert list(one) == ["new"]


def test_deletion_outlives_an_older_list() -> None:
    """A list that was made before the deletion, and read after it, does not bring the object back."""
    one = store()
    one.put(body(1, "it"))
    assert one.remove(body(5, "it"))
    replace(one, [body(1, "it")], 4)
    one.put(body(3, "it"))
    assert list(one) == []
    one.put(body(6, "again"))
    assert list(one) == ["again"]


def test_list_tells_of_deletions_that_the_watch_lost() -> None:
    """What a full list lacks is gone, unless it was made after the list."""
    one = store()
    one.put(body(1, "gone", "a"))
    one.put(body(9, "made later", "b"))
    assert replace(one, [], 5)
    assert list(one) == ["made later"]


def test_watch_that_lags_behind_does_not_bring_back_what_a_list_lacked() -> None:
    """It tells of a change from before the deletion, of which it has not heard yet."""
    one = store()
    one.put(body(1, "it"))
    replace(one, [], 5)
    assert not one.put(body(3, "it, changed"))
    assert not one.remove(body(4, "it, changed"))
    assert list(one) == []
    assert one.put(body(6, "again"))


def test_only_changes_of_what_is_parsed_count() -> None:
    """A Node's heartbeat wakes no one."""
    one = store()
    assert one.put(body(1, "same"))
    assert not one.put(body(2, "same"))
    assert not replace(one, [body(3, "same")], 3)
    assert one.put(body(4, ""))
    assert one.get(("shop", "a")) is None


def test_objects_stay_the_same_tuple_until_something_changes() -> None:
    """Anyone who keeps something per object finds out what has changed by comparing identities."""
    one = store()
    one.put(body(1, "a", "a"))
    before = one.objects
    assert one.objects is before
    one.put(body(2, "a", "a"))
    assert one.objects is before
    one.put(body(3, "b", "b"))
    assert one.objects == ("a", "b")
    one.remove(body(4, "b", "b"))
    assert one.objects == ("a",)


def test_object_that_cannot_be_parsed_any_more_stays_as_it_was() -> None:
    """What is missing here may be deleted elsewhere."""

    def parse(it: dict[str, Any]) -> str:
        return it["value"]["must be there"]

    one: Store[str] = Store(parse)
    one.put({**body(1), "value": {"must be there": "it"}})
    assert not one.put({**body(2), "value": None})
    assert not replace(one, [{**body(3), "value": 7}], 3)
    assert list(one) == ["it"]
    assert one.put({**body(4), "value": {"must be there": "again"}})
