"""What a report says of a bucket that is held in part: which files, so that others' reports may complete it."""

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from colocation.model.agent import TableReference, TableReport
from colocation.storage.contents import HeldFile
from colocation.storage.ledger import FileIdentity
from colocation.storage.report import table_report
from colocation.storage.wanted import WantedFile

from .tables import data_path

RIGHT, OTHER = "a" * 64, "b" * 64
REFERENCE = TableReference(namespace="shop", directory="orders-0a1b2c3d", manifest="c" * 64)
REPORT = TypeAdapter(TableReport)
STATES = ("held", "absent", "unverified", "damaged", "quarantined")


def held_file(state: str) -> HeldFile:
    digest = {"held": RIGHT, "unverified": None, "damaged": OTHER}[state]
    return HeldFile(FileIdentity(4, 1, 1), digest)


def report(states: list[str]) -> TableReport:
    """Of one bucket with a file in each of these states."""
    wanted = {f"part-{number}": WantedFile(f"part-{number}", 0, 4, RIGHT) for number in range(len(states))}
    found = dict(zip(wanted, states, strict=True))
    quarantined = [path for path, state in found.items() if state == "quarantined"]
    held = {path: held_file(state) for path, state in found.items() if state not in ("absent", "quarantined")}
    return table_report(REFERENCE, wanted, (), held, quarantined)


def test_without_the_manifest_the_names_of_files_say_of_which_buckets_they_are() -> None:
    """Nobody else may have them."""
    held = {data_path(bucket): held_file("unverified") for bucket in (3, 1)}
    told = table_report(REFERENCE, None, (), held)
    assert (told.manifest_present, told.buckets, told.unnamed_buckets) == (False, {}, (1, 3))
    assert table_report(REFERENCE, {}, (), held).unnamed_buckets == ()


@given(st.lists(st.sampled_from(STATES), min_size=1, max_size=40))
def test_the_files_that_are_not_held_and_verified_are_lacking(states: list[str]) -> None:
    """Each by its position, also after the report went over the wire."""
    told = REPORT.validate_json(REPORT.dump_json(report(states), by_alias=True))
    found = told.buckets[0].lacking
    assert [bool(found >> position & 1) for position in range(len(states))] == [state != "held" for state in states]
