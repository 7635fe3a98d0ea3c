"""One operator leads at a time, terms only grow, and clocks that differ do no harm."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.controller.leadership import RETRY_SECONDS, Leadership
from colocation.kube.api import ApiError
from colocation.model.agent import SeenLease
from colocation.model.names import ANNOTATION_ETCD_RESTORED, LEASE_DURATION_SECONDS, LEASE_RENEW_SECONDS

from .fake_leases import FakeLeases

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Time:
    """Seconds that never go back, and a wall clock that is off by ``step_seconds``."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.step_seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds + self.step_seconds)


def candidate(leases: FakeLeases, time: Time, pod: str = "") -> Leadership:
    return Leadership(leases, "system", pod, time.wall, time.monotonic)  # type: ignore[arg-type]


async def test_first_one_leads_at_once_and_the_second_waits() -> None:
    """The Lease is made by who comes first."""
    leases, time = FakeLeases(), Time()
    first, second = candidate(leases, time), candidate(leases, time)
    await first.step()
    await second.step()
    assert (first.is_leading, first.term, second.is_leading) == (True, 1, False)


async def test_one_stands_by_while_another_renews() -> None:
    """It is ready to take over; neither the leader, nor one that sees no one lead, nor one that lost, stands by."""
    leases, time = FakeLeases(), Time()
    first, second = candidate(leases, time), candidate(leases, time)
    assert not second.is_standing_by
    for _ in range(5):
        await first.step()
        await second.step()
        assert (first.is_standing_by, second.is_standing_by) == (False, True)
        time.seconds += LEASE_RENEW_SECONDS
    leases.away = True  # the API server does not answer: it could not take over
    time.seconds += LEASE_DURATION_SECONDS
    with contextlib.suppress(ApiError):
        await second.step()
    assert not second.is_standing_by
    leases.away = False
    await second.step()
    assert second.is_leading and not second.is_standing_by
    await first.step()
    assert first.why_lost and not first.is_standing_by


async def test_successor_waits_for_the_whole_duration_by_its_own_clock() -> None:
    """Whatever the times in the Lease say: the dead holder's clock was an hour behind."""
    leases, time = FakeLeases(), Time()
    first, second = candidate(leases, time), candidate(leases, time)
    time.step_seconds = -3600
    await first.step()
    time.step_seconds = 0
    await second.step()
    time.seconds += LEASE_DURATION_SECONDS - 0.1
    await second.step()
    assert not first.is_leading and not second.is_leading
    time.seconds += 0.1
    await second.step()
    assert second.is_leading and second.term == 2


async def test_holder_that_was_replaced_never_acts_again() -> None:
    """Not even when its clock reports that its Lease is still good."""
    leases, time = FakeLeases(), Time()
    first, second = candidate(leases, time), candidate(leases, time)
    await first.step()
    await second.step()
    time.seconds += LEASE_DURATION_SECONDS
    await second.step()
    await first.step()
    assert first.why_lost.startswith("the Lease is held by operator_") and not first.is_leading


async def test_holder_that_cannot_renew_pauses_and_goes_on_with_its_term() -> None:
    """The API server was away; no one else can have taken the Lease."""
    leases, time = FakeLeases(), Time()
    leader = candidate(leases, time)
    await leader.step()
    leases.away = True
    time.seconds += LEASE_DURATION_SECONDS
    with pytest.raises(ApiError):
        await leader.step()
    assert not leader.is_leading
    leases.away = False
    await leader.step()
    assert leader.is_leading and leader.term == 1 and not leader.why_lost


async def test_takeover_whose_answer_was_lost_is_found_out() -> None:
    """The Lease names us; the next look finds that, and no other term begins."""
    leases, time = FakeLeases(), Time()
    leases.loses_answers = True
    leader = candidate(leases, time)
    with pytest.raises(ApiError):
        await leader.step()
    leases.loses_answers = False
    await leader.step()
    assert leader.is_leading


async def test_released_lease_is_taken_at_once() -> None:
    """An operator that is asked to stop lets its successor begin."""
    leases, time = FakeLeases(), Time()
    first, second = candidate(leases, time), candidate(leases, time)
    await first.step()
    await first.release()
    await second.step()
    assert not first.is_leading and second.is_leading and second.term == 2


@pytest.mark.parametrize("loses_answers", [False, True])
async def test_successor_knows_when_the_one_before_wrote_last(loses_answers: bool) -> None:
    """Also once it has renewed the Lease, and when the answer to its takeover was lost."""
    leases, time = FakeLeases(), Time()
    first, second = candidate(leases, time), candidate(leases, time)
    await first.step()
    await first.release()
    assert leases.lease is not None
    left = leases.lease["metadata"]["resourceVersion"]
    leases.loses_answers = loses_answers
    with contextlib.suppress(ApiError):
        await second.step()
    leases.loses_answers = False
    await second.step()
    assert (first.predecessor_version, second.predecessor_version) == ("", left)


async def test_container_that_starts_again_in_its_pod_does_not_wait() -> None:
    """Its predecessor is dead: a pod runs one container of a name at a time."""
    leases, time = FakeLeases(), Time()
    await candidate(leases, time, "operator-abc").step()
    again = candidate(leases, time, "operator-abc")
    await again.step()
    assert again.is_leading and again.term == 2


async def test_deleted_lease_is_made_again_by_its_holder_with_its_term() -> None:
    """Terms never go back while somebody remembers them."""
    leases, time = FakeLeases(), Time()
    first, second = candidate(leases, time), candidate(leases, time)
    await first.step()
    await first.release()
    await second.step()
    leases.lease = None
    await second.step()
    assert second.is_leading and second.term == 2


async def test_term_that_agents_know_already_is_left_behind() -> None:
    """After a restore of etcd the Lease counts from an older number; agents would refuse its terms."""
    leases, time = FakeLeases(), Time()
    leader = candidate(leases, time)
    await leader.step()
    leader.hear_term(7)
    await leader.step()
    assert leader.is_leading and leader.term == 8


async def test_term_that_cannot_be_is_not_believed() -> None:
    """A Lease counts in 32 bits: an agent's number beyond that would stop every renewal, and one close to it the later
    takeovers.
    """
    leases, time = FakeLeases(), Time()
    leader = candidate(leases, time)
    await leader.step()
    leader.hear_term(2**31 - 1)
    leader.hear_term(2**40)
    await leader.step()
    assert leader.is_leading and leader.term == 1


@pytest.mark.parametrize("who", [pytest.param(0, id="leads"), pytest.param(1, id="waits")])
async def test_operator_ends_when_etcd_was_restored_from_an_older_copy(who: int) -> None:
    """Its caches hold objects of a future that never came; what the restored ones say, they take for old."""
    leases, time = FakeLeases(), Time()
    candidates = [candidate(leases, time), candidate(leases, time)]
    await candidates[0].step()
    copy = leases.save()
    for one in candidates:
        await one.step()
    leases.restore(copy)
    await candidates[who].step()
    assert "the Lease's resourceVersion went back from 2 to 1: etcd was restored" in candidates[who].why_lost
    assert not candidates[who].is_leading and leases.save() == copy


async def test_operator_ends_when_the_older_copy_has_no_lease() -> None:
    """The Lease that it makes then has a smaller resource version than the one that it knew."""
    leases, time = FakeLeases(), Time()
    before = leases.save()
    leader = candidate(leases, time)
    await leader.step()
    await leader.step()
    leases.restore(before)
    await leader.step()
    assert "went back from 2 to 1" in leader.why_lost and not leader.is_leading


async def test_deleted_lease_is_no_sign_of_a_restored_etcd() -> None:
    """Resource versions are those of the whole cluster: the new Lease's is larger."""
    leases, time = FakeLeases(), Time()
    leader = candidate(leases, time)
    await leader.step()
    leases.lease = None
    await leader.step()
    assert leader.is_leading and not leader.why_lost


def seen(version: int, holder: str = "another") -> SeenLease:
    return SeenLease(holder=holder, version=version)


async def restored() -> tuple[FakeLeases, Time, Leadership]:
    """An operator that has taken over a Lease of version 100, made by another one, and marks it for what agents say."""
    leases, time = FakeLeases(), Time()
    first = candidate(leases, time)
    await first.step()
    leases.go_on_from(99)
    await first.release()
    leases.go_on_from(10_000)  # as with `--bump-revision`: the store goes on far above what it held
    second = candidate(leases, time)
    await second.step()
    assert second.is_leading
    return leases, time, second


@pytest.mark.parametrize(
    ("lease", "is_restored"),
    [
        pytest.param(seen(500), True, id="newer than the Lease was when it was taken over"),
        pytest.param(seen(100), False, id="as old as that"),
        pytest.param(seen(50), False, id="older: it was away for a while"),
    ],
)
async def test_an_agent_that_remembers_a_newer_lease_shows_that_etcd_was_restored(
    lease: SeenLease, is_restored: bool
) -> None:
    """However far the restored store's versions go on."""
    leases, _, operator = await restored()
    operator.hear_lease(lease)
    assert operator.etcd_restored is is_restored
    await operator.step()
    assert operator.etcd_restored is is_restored
    assert leases.annotations.get(ANNOTATION_ETCD_RESTORED) == ("500" if is_restored else None)


async def test_what_this_operator_sent_to_an_agent_itself_is_no_sign() -> None:
    """A conversation begins again when an agent's address changes."""
    _, _, operator = await restored()
    assert operator.lease is not None and operator.lease.version > 10_000
    operator.hear_lease(operator.lease)
    assert not operator.etcd_restored


async def test_agents_remember_nothing_new_until_the_mark_is_written() -> None:
    """An operator that dies before leaves the sign to its successor."""
    leases, _, operator = await restored()
    operator.hear_lease(seen(500))
    assert operator.lease is None
    leases.away = True
    with contextlib.suppress(ApiError):
        await operator.step()
    assert operator.lease is None and operator.etcd_restored
    leases.away = False
    await operator.step()
    assert operator.lease is not None and operator.etcd_restored


async def test_the_mark_stays_until_an_administrator_takes_it_away() -> None:
    """Successors find it in the Lease; once it is accepted, what agents remember of the lost time counts no more."""
    leases, time, operator = await restored()
    operator.hear_lease(seen(500))
    await operator.step()
    await operator.release()
    successor = candidate(leases, time)
    await successor.step()
    assert successor.etcd_restored
    leases.annotations.clear()
    await successor.step()
    assert not successor.etcd_restored and successor.lease is not None
    successor.hear_lease(seen(99_999))
    assert not successor.etcd_restored


async def test_an_operator_that_only_waits_marks_nothing() -> None:
    """It asks no agents."""
    leases, time, _ = await restored()
    waiting = candidate(leases, time)
    await waiting.step()
    waiting.hear_lease(seen(500_000))
    assert not waiting.etcd_restored and waiting.lease is None


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 2 * LEASE_DURATION_SECONDS), st.booleans()), max_size=60))
async def test_never_two_leaders(turns: list[tuple[int, float, bool]]) -> None:
    """Anyone who looks when, with an API server that loses answers: one acts at most, and terms only grow."""
    leases, time = FakeLeases(), Time()
    candidates = [candidate(leases, time) for _ in range(3)]
    newest = 0
    for turn, seconds, loses in turns:
        time.seconds += seconds
        leases.loses_answers = loses
        with_error = candidates[turn]
        try:
            await with_error.step()
        except ApiError:
            assert loses
        leaders = [one for one in candidates if one.is_leading]
        assert len(leaders) <= 1
        if leaders:
            assert leaders[0].term >= newest
            newest = leaders[0].term


def test_renewals_fit_into_the_duration() -> None:
    """One lost renewal does not end a term."""
    assert 2 * (LEASE_RENEW_SECONDS + RETRY_SECONDS) <= LEASE_DURATION_SECONDS
