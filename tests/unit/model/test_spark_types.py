"""What the names of types mean for columns; their spelling is in ``tests/contract/types.json``."""

from colocation.model.table import Column, columns_digest


def test_a_comment_changes_nothing_that_files_have_to_fit() -> None:
    """A group that took a table before there were comments knows its columns still."""
    commented = Column(name="k", type="bigint", comment="the key")
    assert columns_digest([commented]) == columns_digest([Column(name="k", type="bigint")]) == "a693c29805acfd37"
