"""The conversation with the operator: questions, and each part of a deletion's proof. Pure."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.agent.conversation import (
    Conversation,
    Order,
    OrderContext,
    Question,
    StaleOrder,
    StaleTerm,
    UnknownQuestion,
    key_of,
    next_question,
    tables_that_differ,
    untrue_part,
)
from colocation.model.agent import AskedTable, DeletionProof, InventoryRequest, SeenLease, TableReference
from colocation.storage.paths import TablePath

TABLE = TablePath("shop", "orders-0a1b2c3d")
LIVE = ("aa" * 32, "bb" * 32)
REFERENCE = TableReference(
    namespace=TABLE.namespace, directory=TABLE.directory, manifest=LIVE[0], retained_manifests=LIVE[1:]
)
ASKED = AskedTable(reference=REFERENCE, uid="uid", group_uid="group", map_version=7)
PROOF = DeletionProof(
    instance="here", not_after_seconds=100.0, term=5, table_uid="uid", group_uid="group", map_version=7
)
HERE = OrderContext("here", 100.0, Question("session", 1, 5, {str(TABLE): ASKED}))
ORDER = Order("collect", TABLE, PROOF, LIVE, None)


def asked(**changes: object) -> OrderContext:
    """What an order is checked against if the newest question differs for the table."""
    return OrderContext("here", 100.0, Question("session", 1, 5, {str(TABLE): ASKED.model_copy(update=changes)}))


def referring(**changes: object) -> OrderContext:
    """The same, with other manifests."""
    return asked(reference=REFERENCE.model_copy(update=changes))


@pytest.mark.parametrize("kind", ["drop", "collect"])
def test_a_proof_that_holds_is_accepted(kind: str) -> None:
    """Also if the order keeps more than the question calls live."""
    assert untrue_part(Order(kind, TABLE, PROOF, (*LIVE, "cc" * 32)), HERE) is None


@pytest.mark.parametrize("kind", ["drop", "collect"])
@pytest.mark.parametrize(
    ("here", "problem"),
    [
        pytest.param(OrderContext("other", 100.0, HERE.question), "process 'here', and this is 'other'", id="restart"),
        pytest.param(OrderContext("here", 100.5, HERE.question), "until 100.0 s of uptime, 0.5 s ago", id="too late"),
        pytest.param(OrderContext("here", 100.0, None), "not asked about any table", id="no question"),
        pytest.param(OrderContext("here", 100.0, Question("s", 1, 5)), "does not name shop/orders", id="unasked"),
        pytest.param(asked(uid="other"), "table uid 'uid', and the newest question has 'other'", id="table re-created"),
        pytest.param(asked(group_uid="other"), "group uid", id="table moved to another group"),
        pytest.param(asked(group_uid=None), "group uid", id="table left its group"),
        pytest.param(asked(map_version=8), "map version 7, and the newest question has 8", id="newer map"),
        pytest.param(asked(map_version=6), "map version", id="older map"),
        pytest.param(referring(manifest="cc" * 32), "cccc.* live, which the order does not name", id="new snapshot"),
        pytest.param(referring(retained_manifests=(LIVE[1], "dd" * 32)), "dddd.* live", id="newly retained"),
        pytest.param(referring(manifest=None, retained_manifests=()), "no manifest .* live", id="nothing is live"),
    ],
)
def test_each_part_of_a_proof_is_needed(kind: str, here: OrderContext, problem: str) -> None:
    """If one part does not hold, the order is void; the message names the part."""
    found = untrue_part(Order(kind, TABLE, PROOF, LIVE), here)
    assert found is not None
    assert re.search(problem, found)


def test_a_wanted_folder_is_not_recycled() -> None:
    """The newest question decides, whatever was true when the order was given."""
    order = Order("recycle", TABLE, PROOF)
    assert "it is a table that is wanted" in (untrue_part(order, HERE) or "")
    assert untrue_part(order, OrderContext("here", 100.0, Question("session", 1, 5))) is None
    assert untrue_part(order, OrderContext("here", 100.0, None)) is not None


def asked_conversation(conversation: Conversation, term: int = 1, number: int = 1, **changes: object) -> Conversation:
    """A conversation in which the table was asked about."""
    table = ASKED.model_copy(update=changes)
    conversation.take(InventoryRequest(term=term, session="s", number=number, changed=(table,)))
    return conversation


def order_to(conversation: Conversation, **changes: object) -> Order:
    """An order that holds there."""
    proof = PROOF.model_copy(update={"instance": conversation.instance, "term": 1, **changes})
    return Order("collect", TABLE, proof, LIVE)


def test_an_order_expires_by_the_agents_own_clock() -> None:
    """No wall clock counts."""
    now = [1000.0]
    conversation = asked_conversation(Conversation(clock=lambda: now[0]))
    order = order_to(conversation)
    now[0] += 100.0
    with conversation.deletion(order):
        pass
    now[0] += 0.1
    with pytest.raises(StaleOrder, match="nothing was deleted: it was to be carried out"), conversation.deletion(order):
        pytest.fail("it must not begin")


def test_an_order_of_an_older_term_is_refused() -> None:
    """Another operator leads; its questions are refused, too."""
    conversation = asked_conversation(Conversation(), term=3)
    with pytest.raises(StaleTerm) as caught, conversation.deletion(order_to(conversation, term=2)):
        pytest.fail("it must not begin")
    assert caught.value.term == 3
    with pytest.raises(StaleTerm):
        asked_conversation(conversation, term=2, number=2)
    with pytest.raises(StaleTerm), conversation.restoring(2, frozenset({str(TABLE)})):
        pytest.fail("it must not begin")


def test_a_question_waits_for_the_deletions_that_were_decided_before_it() -> None:
    """For those of the tables that it changes; for all if another session or term asks."""
    conversation = asked_conversation(Conversation())
    with conversation.deletion(order_to(conversation)):
        same = conversation.take(InventoryRequest(term=1, session="s", number=2, base=1))
        assert (same.is_new, same.running) == (False, ())
        moved = ASKED.model_copy(update={"map_version": 8})
        changed = conversation.take(InventoryRequest(term=1, session="s", number=3, base=2, changed=(moved,)))
        assert (changed.is_new, len(changed.running)) == (True, 1)
        another = conversation.take(InventoryRequest(term=1, session="t", number=1, changed=()))
        newer = conversation.take(InventoryRequest(term=2, session="t", number=2, base=1))
        assert len(another.running) == len(newer.running) == 1
        assert not newer.running[0].done()
    assert newer.running[0].done()
    assert conversation.take(InventoryRequest(term=3, session="u")).running == ()


def test_the_newest_question_names_the_wanted_tables() -> None:
    """None before the first question."""
    conversation = Conversation()
    assert not conversation.is_asked_about(TABLE)
    asked_conversation(conversation)
    assert conversation.is_asked_about(TABLE)
    assert not conversation.is_asked_about(TablePath("shop", "orders-99999999"))


def test_a_failed_deletion_has_ended() -> None:
    """No question waits for it."""
    conversation = asked_conversation(Conversation())
    with pytest.raises(OSError, match="disk"), conversation.deletion(order_to(conversation)):
        raise OSError("disk")
    assert conversation.take(InventoryRequest(term=2, session="t")).running == ()


def test_a_deletion_after_a_newer_question_is_checked_against_it() -> None:
    """The question was taken first: the order is of an older epoch."""
    conversation = asked_conversation(Conversation())
    order = order_to(conversation)
    asked_conversation(conversation, number=2, map_version=8)
    with pytest.raises(StaleOrder, match="map version"), conversation.deletion(order):
        pytest.fail("it must not begin")


NAMES = st.sampled_from(["a-00000000", "b-00000000", "c-00000000"])
ASKED_TABLES = st.builds(
    lambda name, version: AskedTable(
        reference=TableReference(namespace="shop", directory=name), uid=name, map_version=version
    ),
    NAMES,
    st.integers(0, 2),
)
STEPS = st.lists(
    st.tuples(st.lists(ASKED_TABLES, max_size=3), st.lists(NAMES.map(lambda name: f"shop/{name}"), max_size=2)),
    max_size=6,
)


@given(STEPS)
def test_changes_add_up_to_a_full_question(steps: list[tuple[list[AskedTable], list[str]]]) -> None:
    """Asking step by step and asking for the result are the same question; only changed tables differ."""
    question = next_question(None, InventoryRequest(session="s", number=0))
    expected: dict[str, AskedTable] = {}
    for number, (changed, removed) in enumerate(steps, start=1):
        request = InventoryRequest(
            session="s", number=number, base=number - 1, changed=tuple(changed), removed=tuple(removed)
        )
        before, question = question, next_question(question, request)
        expected = {key: table for key, table in expected.items() if key not in removed}
        expected |= {key_of(table.reference): table for table in changed}
        assert question.tables == expected
        assert tables_that_differ(before, question) == {
            key
            for key in before.tables.keys() | expected.keys()
            if before.tables.get(key) != expected.get(key)
        }
        assert next_question(question, request) == question  # its answer was lost, so it comes again
    in_full = InventoryRequest(session="s", number=99, changed=tuple(expected.values()))
    assert next_question(question, in_full).tables == expected


@given(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["s", "t"]))
def test_only_the_newest_question_is_a_base(base: int, number: int, session: str) -> None:
    """Any other base is unknown: changes of it cannot be applied."""
    remembered = next_question(None, InventoryRequest(session="s", number=5, changed=(ASKED,)))
    request = InventoryRequest(session=session, number=number, base=base, removed=(str(TABLE),))
    if session == "s" and base == 5 and number >= 5:
        assert next_question(remembered, request).tables == {}
    else:
        with pytest.raises(UnknownQuestion, match="in full"):
            next_question(remembered, request)


def test_what_an_operator_saw_of_its_lease_is_remembered() -> None:
    """Until a question brings something newer; one that brings nothing changes nothing, by any client."""
    conversation = Conversation()
    seen = SeenLease(holder="first", version=500)
    conversation.take(InventoryRequest(term=1, session="s", number=1, lease=seen))
    conversation.take(InventoryRequest(term=2, session="t", number=1))
    assert conversation.lease == seen
    older = SeenLease(holder="second", version=100)
    conversation.take(InventoryRequest(term=2, session="t", number=2, base=1, lease=older))
    assert conversation.lease == older


def test_an_operator_of_an_older_term_changes_no_memory() -> None:
    """It was replaced, and what it has seen is old."""
    conversation = Conversation()
    conversation.take(InventoryRequest(term=2, session="t", lease=SeenLease(holder="second", version=9)))
    with pytest.raises(StaleTerm):
        conversation.take(InventoryRequest(term=1, session="s", lease=SeenLease(holder="first", version=5)))
    assert conversation.lease == SeenLease(holder="second", version=9)


def test_recycled_folders_stay_until_they_may_go() -> None:
    """Before the first question, while etcd is restored, and as long as their table is wanted."""
    conversation, other = Conversation(), TablePath("shop", "lines-11111111")
    assert conversation.keeps_recycled(other)
    conversation.take(InventoryRequest(term=1, session="s", number=1, changed=(ASKED,), frozen=True))
    assert conversation.keeps_recycled(other)
    conversation.take(InventoryRequest(term=1, session="s", number=2, base=1))
    assert (conversation.keeps_recycled(TABLE), conversation.keeps_recycled(other)) == (True, False)
