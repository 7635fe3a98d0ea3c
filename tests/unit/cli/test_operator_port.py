"""Which of the operator's pods is asked: the one that leads; others stand by, and answer 503."""

from types import SimpleNamespace as Object
from typing import Any

import pytest

from colocation.cli import port_forward
from colocation.cli.errors import CommandFailed
from colocation.model.adoption import Folders


def pod(name: str, ready: bool, phase: str = "Running", deleting: bool = False, leads: bool = False) -> Any:
    """As the client's library has it."""
    labels = {"colocation.dev/leads": "true"} if leads else None
    metadata = Object(name=name, deletion_timestamp="2026-11-25" if deleting else None, labels=labels)
    condition = Object(type="Ready", status=str(ready))
    return Object(metadata=metadata, status=Object(phase=phase, conditions=[condition]))


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([pod("a", True), pod("b", True, leads=True)], "b", id="the one that leads"),
        pytest.param([pod("a", False), pod("b", True)], "b", id="the one that is ready"),
        pytest.param([pod("a", True, deleting=True), pod("b", False)], "b", id="none that goes"),
        pytest.param([pod("b", False), pod("a", False)], "a", id="none is ready yet"),
    ],
)
def test_which_pod_is_asked(pods: list[Any], expected: str) -> None:
    """A pod that is not ready may still answer with what is wrong."""
    core: Any = Object(list_namespaced_pod=lambda namespace, label_selector: Object(items=pods))
    assert port_forward._operator_pod(core, "colocation") == expected


def test_no_operator_runs() -> None:
    """What to look at is said."""
    core: Any = Object(list_namespaced_pod=lambda namespace, label_selector: Object(items=[pod("a", False, "Pending")]))
    with pytest.raises(CommandFailed, match="no operator runs in namespace 'colocation'"):
        port_forward._operator_pod(core, "colocation")


def test_no_operator_is_installed() -> None:
    """A newcomer's next step is the chart, not a list of pods that is empty."""
    core: Any = Object(list_namespaced_pod=lambda namespace, label_selector: Object(items=[]))
    with pytest.raises(CommandFailed, match=r"install the chart: docs/how-to/install\.md#install"):
        port_forward._operator_pod(core, "colocation")


def test_a_refusal_is_its_message() -> None:
    """Without the JSON around it."""
    body = b'{"error": "NotReady", "message": "no first pass yet; try again"}'
    with pytest.raises(CommandFailed, match=r"answered 503 to /folders: no first pass yet; try again$"):
        port_forward._read("/folders", 503, body, Folders)


@pytest.mark.parametrize(
    ("status", "is_asked_again"),
    [pytest.param(503, True, id="it stands by"), pytest.param(404, False, id="an older release without folders")],
)
def test_an_answer_that_another_attempt_may_change(status: int, is_asked_again: bool) -> None:
    """``adopt`` waits for the one, and ends with the other."""
    with pytest.raises(CommandFailed, match=f"answered {status} to /folders: why") as refused:
        port_forward._read("/folders", status, b"why", Folders)
    assert isinstance(refused.value, port_forward.OperatorUnreachable) == is_asked_again
