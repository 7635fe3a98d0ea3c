"""Independent pieces of work: a failed one stops no other, and the error names all that failed."""

import errno
import os

import pytest

from colocation.storage.errors import EXHAUSTED, MAX_NAMED_FAILURES, NotHeld, all_attempted


@pytest.mark.parametrize(
    ("failures", "more"),
    [(1, ""), (MAX_NAMED_FAILURES, ""), (MAX_NAMED_FAILURES + 1, ", and 1 more"), (99, ", and 79 more")],
)
def test_the_first_error_names_all(failures: int, more: str) -> None:
    """Of very many the first ones."""
    done = []
    with pytest.raises(NotHeld, match=r"^no file 0") as raised, all_attempted() as attempt:
        for number in range(failures):
            with attempt(f"to read {number}"):
                done.append(number)
                raise NotHeld(f"no file {number}")
        with attempt("to succeed"):
            done.append(failures)
    names = "; ".join(f"to read {number}" for number in range(min(failures, MAX_NAMED_FAILURES)))
    assert raised.value.__notes__ == [f"failed: {names}{more}"]
    assert done == list(range(failures + 1))


@pytest.mark.parametrize("number", sorted(EXHAUSTED), ids=errno.errorcode.get)
def test_without_descriptors_or_memory_nothing_is_attempted(number: int) -> None:
    """The next piece would fail, too."""
    done = []
    with pytest.raises(OSError, match=os.strerror(number)), all_attempted() as attempt:
        for piece in range(3):
            with attempt("to read"):
                done.append(piece)
                raise OSError(number, os.strerror(number))
    assert done == [0]
