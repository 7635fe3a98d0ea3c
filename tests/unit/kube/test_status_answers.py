"""A status that the API server does not keep is not written again, unless something else is to be said."""

from dataclasses import replace

import pytest

from colocation.kube.status_answers import StatusAnswers

from ..state.objects import identity

SENT = {"stable": True, "nodes": ["a", "b"], "disks": [{"node": "a", "size": 1}], "since": "12:00", "reason": None}


def kept(**changes: object) -> dict[str, object]:
    """As the API server keeps it; None = dropped."""
    status = {"other": "of others", **SENT, **changes}
    return {"metadata": {"resourceVersion": "8"}, "status": {k: v for k, v in status.items() if v is not None}}


@pytest.mark.parametrize(
    ("came", "wanted", "version", "needless"),
    [
        pytest.param({"since": None}, {}, "8", True, id="dropped"),
        pytest.param({"since": None}, {"since": "12:01"}, "8", True, id="dropped: another time does not help"),
        pytest.param({"disks": [{"node": "a"}]}, {}, "8", True, id="dropped deep within"),
        pytest.param({"stable": False}, {}, "8", True, id="changed by a webhook"),
        pytest.param({"reason": "Default"}, {}, "8", True, id="a default put in"),
        pytest.param({"since": None}, {"stable": False}, "8", False, id="something else is to be said, too"),
        pytest.param({"stable": False}, {"stable": False, "nodes": ["c"]}, "8", False, id="another one than was sent"),
        pytest.param({"stable": 3}, {"stable": False}, "8", False, id="changed by a webhook: another value may stay"),
        pytest.param({"since": None}, {"disks": [{"node": "a", "size": 1}, {"node": "b"}]}, "8", False, id="one more"),
        pytest.param({"since": None}, {}, "9", False, id="written by others since"),
        pytest.param({}, {"stable": False}, "8", False, id="all was kept"),
    ],
)
def test_what_is_needless(came: dict[str, object], wanted: dict[str, object], version: str, needless: bool) -> None:
    """Only what was sent in vain, to the very object that came back."""
    answers, subject = StatusAnswers(), identity("sales")
    answers.heard(subject, SENT, kept(**came))
    asked = replace(subject, resource_version=version)
    assert answers.is_needless(asked, SENT | wanted) == needless


@pytest.mark.parametrize("body", [{}, {"metadata": {"resourceVersion": 3}, "status": 7}, {"metadata": None}])
def test_odd_answer_keeps_no_write_from_being_repeated(body: dict[str, object]) -> None:
    """Nothing is known of it."""
    answers, subject = StatusAnswers(), identity("sales")
    answers.heard(subject, SENT, body)
    assert not answers.is_needless(subject, SENT)
