"""Exactly the pod of the operator that serves has the leader's label."""

from typing import Any

from colocation.controller.leader_label import SELECTOR, LeaderLabel
from colocation.model.names import LABEL_LEADS

JsonObject = dict[str, Any]


class FakePods:
    """Operators' pods: name -> labels."""

    def __init__(self, **pods: dict[str, str]) -> None:
        self.pods = pods
        self.writes: list[str] = []

    async def list_all(self, _resource: object, namespace: str, labels: str) -> tuple[list[JsonObject], int]:
        assert (namespace, labels) == ("system", SELECTOR)
        found = [{"metadata": {"name": name, "uid": f"uid-{name}", "labels": dict(one)}} for name, one in
                 self.pods.items()]  # fmt: skip
        return found, 1

    async def patch(self, _resource: object, _namespace: str, name: str, body: JsonObject) -> JsonObject:
        assert body["metadata"]["uid"] == f"uid-{name}"
        self.writes.append(name)
        merged = {**self.pods[name], **body["metadata"]["labels"]}
        self.pods[name] = {label: value for label, value in merged.items() if value is not None}
        return {}


async def test_the_label_moves_to_the_successor() -> None:
    """It is taken from the predecessor, and nothing is written once all is right."""
    leads = {LABEL_LEADS: "true"}
    api = FakePods(old=leads, new={}, other={"app": "x"})
    label = LeaderLabel(api, "system", "new", lambda: True)  # type: ignore[arg-type]
    await label.step()
    assert api.pods == {"old": {}, "new": leads, "other": {"app": "x"}}
    await label.step()
    assert api.writes == ["old", "new"]
