"""Requests to bring a dropped table back, which anybody writes who may annotate the group."""

from dataclasses import replace

import pytest

from colocation.reconcile.actions import Action, CreateTable, EndRecoverRequests, PostEvent
from colocation.reconcile.members import next_recycled
from colocation.reconcile.recovery import MAX_REFUSAL_EVENTS, request_actions, unclaimed_folders
from colocation.state.assemble import assemble
from colocation.state.objects import ObservedGroup
from colocation.state.observation import Observation

from ..state.objects import NOW, agent, group, remembering, table, view


def answers_to(observation: Observation) -> list[Action]:
    """What is done about the requests of the only group."""
    cluster = assemble(observation)
    [found] = cluster.groups.values()
    return list(request_actions(found, cluster, unclaimed_folders(observation)))


def with_dropped(namespace: str, allowed: list[str], request: str) -> Observation:
    """Group ``shop/sales`` with a dropped table of a namespace, which one node's bin holds, and a request."""
    orders = table("orders", "sales")
    orders = replace(orders, identity=replace(orders.identity, namespace=namespace))
    sales = remembering(group("sales", allowedNamespaces=allowed), orders)
    before = Observation(NOW, groups=(sales,))
    cluster = assemble(before)
    recycled = next_recycled(cluster.groups[sales.key], cluster)
    status = sales.status.model_copy(update={"members": (), "recycled": recycled})
    asked = replace(sales, status=status, recover_requests=frozenset({request}))
    found = view()
    assert found.report is not None
    lying = found.report.model_copy(update={"recycled_directories": (f"{namespace}/{orders.directory}",)})
    return Observation(
        NOW, groups=(asked,), agents=(agent("node-1"),), agent_views={"node-1": replace(found, report=lying)}
    )


def only_group(observation: Observation) -> ObservedGroup:
    [found] = observation.groups
    return found


UID = table("orders").identity.uid


@pytest.mark.parametrize(
    ("namespace", "allowed", "request_", "refusal"),
    [
        pytest.param("shop", [], UID[:8], None, id="of the group's own namespace"),
        pytest.param("lake", ["lake"], UID[:8], None, id="of a namespace that the group allows"),
        pytest.param("lake", [], UID[:8], "no longer allows", id="of a namespace that it does not allow now"),
        pytest.param("shop", [], "", "no dropped table with a uid", id="of no table in particular"),
        pytest.param("shop", [], UID[:3], "no dropped table with a uid", id="of any table that begins so"),
    ],
)
def test_whose_tables_a_group_brings_back(
    namespace: str, allowed: list[str], request_: str, refusal: str | None
) -> None:
    """No table is made in a namespace that has nothing to do with the group any more."""
    observation = with_dropped(namespace, allowed, request_)
    actions = answers_to(observation)
    if refusal is None:
        assert [type(one) for one in actions] == [CreateTable]
        return
    [event, end] = actions
    assert isinstance(event, PostEvent) and refusal in event.message
    assert isinstance(end, EndRecoverRequests)


@pytest.mark.parametrize("count", [1, 9500])
def test_any_number_of_requests_costs_few_calls(count: int) -> None:
    """Each call delays all groups. An object has room for so many annotations, and a uid has many beginnings."""
    observation = with_dropped("shop", [], UID[:8])
    found = only_group(observation)
    wrong = {f"wrong-{number}" for number in range(count)}
    asked = replace(found, recover_requests=frozenset({UID[:length] for length in range(8, len(UID))} | wrong))
    *events, end, creation = answers_to(replace(observation, groups=(asked,)))
    assert isinstance(end, EndRecoverRequests) and set(end.requests) == wrong
    assert isinstance(creation, CreateTable)
    assert all(isinstance(one, PostEvent) for one in events) and 1 <= len(events) <= MAX_REFUSAL_EVENTS + 1


@pytest.mark.parametrize(("count", "more"), [(8, 0), (9, 1), (20, 12)])
def test_the_first_refusals_are_events_and_the_others_are_counted(count: int, more: int) -> None:
    """One event for each would delay all groups."""
    observation = with_dropped("shop", [], "none")
    wrong = frozenset(f"wrong-{number:02}" for number in range(count))
    asked = replace(only_group(observation), recover_requests=wrong)
    *events, _ = answers_to(replace(observation, groups=(asked,)))
    messages = [one.message for one in events if isinstance(one, PostEvent)]
    expected = [f"no dropped table with a uid {one}… is in the recycle bin of the group" for one in sorted(wrong)]
    last = [f"{more} more requests to bring tables back were refused"] if more else []
    assert messages == [*expected[:MAX_REFUSAL_EVENTS], *last]


@pytest.mark.parametrize(
    ("record", "name", "etcd_restored", "refusal"),
    [
        pytest.param({}, None, False, None, id="nothing is in the way"),
        pytest.param({"snapshot": None}, None, False, "table shop/orders was never loaded; create it", id="empty"),
        pytest.param({}, "orders", False, "table shop/orders exists; drop or rename it", id="another one of its name"),
        pytest.param({}, "lines", False, None, id="one of another name"),
        pytest.param({"purge_at": "2026-11-21T12:00:00Z"}, None, False,
                     "table shop/orders was purged at 2026-11-21T12:00:00Z", id="its time is over"),
        pytest.param({"purge_at": "2026-11-21T12:00:01Z"}, None, False, None, id="its time is almost over"),
        pytest.param({"purge_at": "2026-11-21T12:00:00Z"}, None, True, None, id="etcd was restored"),
    ],
)  # fmt: skip
def test_why_a_table_is_not_brought_back(
    record: dict[str, object], name: str | None, etcd_restored: bool, refusal: str | None
) -> None:
    """The user reads what to do; the request is over."""
    observation = with_dropped("shop", [], UID[:8])
    found = only_group(observation)
    [known] = found.status.recycled
    changed = found.status.model_copy(update={"recycled": (known.model_copy(update=record),)})
    other = table(name or "", "sales")
    other = replace(other, identity=replace(other.identity, uid="other"))
    actions = answers_to(replace(
        observation, groups=(replace(found, status=changed),), tables=(other,) if name else (),
        etcd_restored=etcd_restored,
    ))  # fmt: skip
    if refusal is None:
        assert [type(one) for one in actions] == [CreateTable]
        return
    event, end = actions
    assert isinstance(event, PostEvent) and event.message.startswith(refusal)
    assert isinstance(end, EndRecoverRequests) and end.requests == (UID[:8],)


def test_table_is_made_from_the_bin_of_a_node_that_answers() -> None:
    """A silent node's manifest cannot be read: the request waits."""
    observation = with_dropped("shop", [], UID[:8])
    silent = {name: replace(one, silent_since=NOW) for name, one in observation.agent_views.items()}
    away = replace(observation, agent_views=silent)
    assert answers_to(away) == []


def test_each_node_whose_bin_has_the_table_is_asked() -> None:
    """The first one may lack the manifest: it was away at the last commit."""
    observation = with_dropped("shop", [], UID[:8])
    views = dict.fromkeys(("node-1", "node-2", "node-3"), observation.agent_views["node-1"])
    views["node-2"] = replace(views["node-2"], silent_since=NOW)
    agents = tuple(agent(name) for name in views)
    many = replace(observation, agents=agents, agent_views=views)
    [action] = answers_to(many)
    assert isinstance(action, CreateTable)
    assert [folder.url for folder in action.folders] == [many.agent_urls["node-1"], many.agent_urls["node-3"]]


def test_files_that_are_under_another_uid_are_named() -> None:
    """As after a restore of etcd to a copy that does not know that uid. Nothing waits for them."""
    observation = with_dropped("shop", [], UID[:8])
    found = observation.agent_views["node-1"]
    assert found.report is not None
    other = found.report.model_copy(
        update={"recycled_directories": (), "unknown_directories": ("shop/orders-77777777", "shop/orders2-77777777")}
    )
    [event, end] = answers_to(replace(observation, agent_views={"node-1": replace(found, report=other)}))
    assert isinstance(event, PostEvent) and isinstance(end, EndRecoverRequests)
    assert "remembers orders-77777777, of the same name: `colocation adopt -n shop --table orders" in event.message


def with_others(observation: Observation, *more: str) -> Observation:
    """Its node has another folder of the table's name, and these in its bin."""
    found = observation.agent_views["node-1"]
    assert found.report is not None
    lying = {"recycled_directories": more, "unknown_directories": ("shop/orders-77777777",)}
    return replace(observation, agent_views={"node-1": replace(found, report=found.report.model_copy(update=lying))})


def test_other_folders_of_its_name_keep_no_table_from_coming_back() -> None:
    """Its own one is there."""
    observation = with_others(with_dropped("shop", [], UID[:8]), f"shop/{table('orders').directory}")
    assert [type(one) for one in answers_to(observation)] == [CreateTable]


@pytest.mark.parametrize("others", [False, True])
def test_a_request_whose_table_comes_back_ends(others: bool) -> None:
    """Nothing is refused: the table of that name is the one that was asked for."""
    observation = with_dropped("shop", [], UID[:8])
    observation = with_others(observation) if others else observation
    heir = table("orders", "sales", files=None)
    heir = replace(heir, identity=replace(heir.identity, uid="heir"), recovers=UID)
    [end] = answers_to(replace(observation, tables=(heir,)))
    assert isinstance(end, EndRecoverRequests)
