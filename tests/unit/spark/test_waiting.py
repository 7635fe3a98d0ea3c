"""A load waits for what the operator has yet to do, and says what that is when it does not come."""

import itertools
import uuid
from dataclasses import replace

import pytest

from colocation.model.group import ColocationGroupSpec, ColocationGroupStatus
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus, Column
from colocation.spark.catalog import NoAnswer, TableObject
from colocation.spark.write.load_target import NotReady, wait_until_loadable

from .fake_catalog import NAMESPACE, FakeCatalog

SPEC = ColocatedTableSpec(
    colocate_with="sales", columns=(Column(name="id", type="bigint"),), bucketed_by=("id",)
)
GROUP_SPEC = ColocationGroupSpec(bucket_key=("bigint",), buckets=2, replicas=2)
MAP = (("node-1", "node-2"), ("node-2", "node-3"))
AGENTS = {node: f"https://{node}:8440" for node in ("node-1", "node-2", "node-3")}


def ready_catalog() -> FakeCatalog:
    catalog = FakeCatalog(dict(AGENTS))
    catalog.add_table("orders", SPEC, str(uuid.uuid4()))
    catalog.add_group(GROUP_SPEC, ColocationGroupStatus(stable=True, backends_per_bucket_seq=MAP))
    return catalog


def without_group(catalog: FakeCatalog) -> None:
    catalog.groups.clear()


def without_map(catalog: FakeCatalog) -> None:
    catalog.add_group(GROUP_SPEC, ColocationGroupStatus(reason="InsufficientNodes"))


def not_accepted(catalog: FakeCatalog) -> None:
    catalog.tables["orders"] = replace(catalog.tables["orders"], status=ColocatedTableStatus())


def in_no_group(catalog: FakeCatalog) -> None:
    spec = SPEC.model_copy(update={"colocate_with": ""})
    catalog.tables["orders"] = replace(catalog.tables["orders"], spec=spec)


def in_a_group_that_does_not_allow_it(catalog: FakeCatalog) -> None:
    """Whoever may write the table's status may write any group into it."""
    catalog.change("orders", group="accounts/ledger")
    catalog.groups["accounts/ledger"] = replace(catalog.groups["sales"], namespace="accounts", name="ledger")


def with_one_agent(catalog: FakeCatalog) -> None:
    """One more is enough: a load goes there instead."""
    del catalog.agents["node-1"], catalog.agents["node-3"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (without_group, "ColocationGroup shop/sales does not exist"),
        (without_map, r"group sales has no map yet \(InsufficientNodes\)"),
        (not_accepted, "the operator has not accepted it yet"),
        (in_no_group, r"ColocationGroup shop/orders-[0-9a-f]{8} does not exist"),
        (
            in_a_group_that_does_not_allow_it,
            r"NamespaceNotAllowed: group accounts/ledger allows namespaces \[\], and this is namespace shop",
        ),
        (
            with_one_agent,
            "bucket 0 lies on nodes node-1, node-2; of the group's nodes 1 have a ready agent; at least 2 must",
        ),
    ],
)
def test_gives_up_with_what_is_missing(spoil, words: str) -> None:  # type: ignore[no-untyped-def]
    """After the deadline the error names the one thing that did not come."""
    catalog = ready_catalog()
    spoil(catalog)
    clock = itertools.count()
    with pytest.raises(NotReady, match=words):
        wait_until_loadable(catalog, NAMESPACE, "orders", 5, clock=lambda: next(clock), sleep=lambda _: None)


def test_goes_on_as_soon_as_the_operator_is_done() -> None:
    """The load begins when map and agents are there."""
    catalog = ready_catalog()
    complete = catalog.groups["sales"]
    without_map(catalog)

    def operator_makes_the_map(_: float) -> None:
        catalog.groups["sales"] = complete

    target = wait_until_loadable(catalog, NAMESPACE, "orders", 5, clock=lambda: 0.0, sleep=operator_makes_the_map)
    assert (target.buckets, target.agents) == (MAP, AGENTS)


def test_an_api_server_that_is_away_for_a_moment_ends_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows may have been sent by then; when it stays away the error says what it said last."""
    catalog = ready_catalog()
    answers = [NoAnswer("503"), NoAnswer("503"), catalog.tables["orders"]]

    def get_table(namespace: str, name: str) -> TableObject:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(catalog, "get_table", get_table)
    clock = itertools.count()
    target = wait_until_loadable(catalog, NAMESPACE, "orders", 5, clock=lambda: next(clock), sleep=lambda _: None)
    assert target.buckets == MAP
    answers[:] = [NoAnswer("the API server answered 503")] * 9
    with pytest.raises(NotReady, match="cannot be loaded after 5 s: the API server answered 503"):
        wait_until_loadable(catalog, NAMESPACE, "orders", 5, clock=lambda: next(clock), sleep=lambda _: None)
