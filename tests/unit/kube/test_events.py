"""Events: the same one again only counts up, whatever somebody has made of it."""

from typing import Any

import pytest

from colocation.kube.api import Conflict
from colocation.kube.events import EventPoster
from colocation.reconcile.actions import PostEvent

from ..state.objects import NOW, identity


class FakeApi:
    """An API server that has the Event already when ``count`` is given."""

    def __init__(self, existing: dict[str, Any] | None) -> None:
        self.existing = existing
        self.created: list[dict[str, Any]] = []
        self.patches: list[dict[str, Any]] = []

    async def create(self, resource: object, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.existing is not None:
            raise Conflict(409, "exists")
        self.created.append(body)
        return body

    async def patch(self, resource: object, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        self.patches.append(body)
        return self.existing or {}


def event(name: str = "sales") -> PostEvent:
    return PostEvent("ColocationGroup", identity(name), "Normal", "Moved", "it has moved")


@pytest.mark.parametrize(
    ("existing", "count"),
    [
        pytest.param({"count": 4}, 5, id="counted"),
        pytest.param({}, 2, id="not counted"),
        pytest.param({"count": None}, 2, id="null"),
        pytest.param({"count": "many"}, 2, id="text"),
    ],
)
async def test_event_again_counts_up(existing: dict[str, Any], count: int) -> None:
    """Anybody with rights on Events may have changed it."""
    api = FakeApi(existing)
    await EventPoster(api, lambda: NOW, "operator").post(event())  # type: ignore[arg-type]
    assert api.patches[-1] == {"count": count}


async def test_name_fits_whatever_the_subject_is_called() -> None:
    """Names of objects have 253 characters at most, and so has the Event's, with a digest behind the subject's."""
    api = FakeApi(None)
    await EventPoster(api, lambda: NOW, "operator").post(event("a" * 229 + "-" * 10 + "b" * 14))  # type: ignore[arg-type]
    (body,) = api.created
    assert len(body["metadata"]["name"]) <= 253
    assert body["metadata"]["name"].startswith("a" * 229 + ".")
