"""Volumes and claims of namespaces' files: from whatever is there to what should be, touching no one else's."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.manifests.data_volume import data_claim, data_volume
from colocation.model.conditions import ConditionType, Reason
from colocation.model.names import DATA_CLAIM, data_path, data_volume_name
from colocation.reconcile.actions import (
    Action,
    CreateDataClaim,
    CreateDataVolume,
    DeleteDataClaim,
    DeleteDataVolume,
    PostEvent,
    WriteGroupStatus,
)
from colocation.reconcile.decide import next_deadline
from colocation.reconcile.namespace_files import NamespaceFiles
from colocation.state.assemble import assemble
from colocation.state.objects import Identity, ObservedClaim, ObservedVolume, RefusedFiles
from colocation.state.observation import Observation
from colocation.state.parse import parse_claim, parse_volume

from ..state.objects import NOW, seconds
from .scenes import POLICY, actions_of, decided, quiet_observation, settled_table

SHOP, ROOT = "shop", POLICY.data_root
STEPS = 12
One = TypeVar("One", ObservedClaim, ObservedVolume)
FILES = CreateDataClaim | CreateDataVolume | DeleteDataClaim | DeleteDataVolume


@dataclass
class Server:
    """Volumes and claims as Kubernetes keeps them: a volume that is deleted stays as long as its claim has it."""

    claims: dict[str, ObservedClaim] = field(default_factory=dict)
    volumes: dict[str, ObservedVolume] = field(default_factory=dict)
    made: int = 100

    def perform(self, action: Action) -> None:
        match action:
            case CreateDataClaim(namespace):
                body = data_claim(namespace)
                self.claims.setdefault(namespace, parse_claim(self._stored(body)))
            case CreateDataVolume(namespace, data_root, claim_uid):
                body = data_volume(namespace, data_root, claim_uid)
                self.volumes.setdefault(body["metadata"]["name"], parse_volume(self._stored(body)))
            case DeleteDataClaim(identity):
                self.claims[identity.namespace] = deleting(self.claims[identity.namespace])
            case DeleteDataVolume(identity):
                self.volumes[identity.name] = deleting(self.volumes[identity.name])

    def control(self) -> None:
        """What Kubernetes' own controllers do between two passes; no pod uses a claim."""
        self.claims = {key: one for key, one in self.claims.items() if not one.identity.deleting}
        uids = {one.identity.uid for one in self.claims.values()}
        self.volumes = {
            name: one for name, one in self.volumes.items() if not one.identity.deleting or one.claim_uid in uids
        }
        for name, volume in self.volumes.items():
            claim = self.claims.get(volume.namespace)
            if claim is not None and claim.identity.uid == volume.claim_uid and not claim.volume:
                self.claims[volume.namespace] = replace(claim, volume=name)

    def observed(self, before: Observation) -> Observation:
        return replace(before, claims=tuple(self.claims.values()), volumes=tuple(self.volumes.values()))

    def _stored(self, body: dict[str, Any]) -> dict[str, Any]:
        self.made += 1
        return {**body, "metadata": {**body["metadata"], "uid": f"uid-{self.made}", "resourceVersion": "1"}}


def deleting(one: One) -> One:
    return replace(one, identity=replace(one.identity, deleting=True))


def identity(name: str, namespace: str = "", uid: str = "uid-1", is_deleting: bool = False) -> Identity:
    return Identity(namespace, name, uid, "1", 1, NOW, is_deleting)


def claim(namespace: str = SHOP, is_ours: bool = True, volume: str = "", is_deleting: bool = False) -> ObservedClaim:
    return ObservedClaim(identity(DATA_CLAIM, namespace, "uid-1", is_deleting), is_ours, volume)


def volume(
    namespace: str = SHOP, path: str = "", claim_uid: str = "uid-1", is_ours: bool = True, is_deleting: bool = False
) -> ObservedVolume:
    found = identity(data_volume_name(namespace), "", "uid-2", is_deleting)
    return ObservedVolume(found, namespace if is_ours else "", path or data_path(ROOT, namespace), claim_uid)


def files_actions(observation: Observation) -> Iterator[Action]:
    for scope in decided(observation).scopes:
        yield from (action for action in scope.actions if isinstance(action, FILES))


def settle(server: Server, observation: Observation) -> list[Action]:
    """Passes until nothing is left to do; all actions."""
    done: list[Action] = []
    for _ in range(STEPS):
        actions = list(files_actions(server.observed(observation)))
        for action in actions:
            server.perform(action)
        done += actions
        server.control()
    assert list(files_actions(server.observed(observation))) == [], "it does not come to rest"
    return done


def is_served(server: Server, namespace: str, data_root: str = ROOT) -> bool:
    """Whether the namespace's pods get its folder."""
    found, of = server.volumes.get(data_volume_name(namespace)), server.claims.get(namespace)
    return (
        found is not None and of is not None and not of.identity.deleting
        and (found.path, found.claim_uid) == (data_path(data_root, namespace), of.identity.uid)
        and of.volume == found.identity.name
    )  # fmt: skip


ANY_CLAIM = st.none() | st.builds(
    claim, st.just(SHOP), st.booleans(), st.sampled_from(["", data_volume_name(SHOP), "another"]), st.booleans()
)
ANY_VOLUME = st.none() | st.builds(
    volume, st.just(SHOP), st.sampled_from(["", "/old/shop", "/etc"]), st.sampled_from(["", "uid-1", "gone"]),
    st.booleans(), st.booleans(),
)  # fmt: skip


@settings(max_examples=300)
@given(ANY_CLAIM, ANY_VOLUME)
def test_whatever_is_there_becomes_right_or_is_anothers(
    found: ObservedClaim | None, held: ObservedVolume | None
) -> None:
    """Also what is being deleted, is reserved for a claim that is gone, or leads elsewhere."""
    server = Server({SHOP: found} if found else {}, {held.identity.name: held} if held else {})
    foreign = [*([found] if found and not found.is_ours else []), *([held] if held and not held.namespace else [])]
    actions = settle(server, quiet_observation("orders"))
    for one in foreign:
        kept = [left.identity for left in (*server.claims.values(), *server.volumes.values())]
        assert one.identity in kept or one.identity.deleting, "another's object was touched"
        assert one.identity not in [getattr(action, "claim", getattr(action, "volume", None)) for action in actions]
    if not foreign:
        assert is_served(server, SHOP)


def test_a_namespace_gets_claim_and_volume_once() -> None:
    """Claim first, as the volume names its uid; then nothing is left to do."""
    server = Server()
    assert settle(server, quiet_observation("orders")) == [
        CreateDataClaim(SHOP), CreateDataVolume(SHOP, ROOT, "uid-101"),
    ]  # fmt: skip
    assert is_served(server, SHOP)


def test_namespaces_of_tables_get_theirs() -> None:
    """A table of another namespace is read there; of a namespace without any, there is nothing to make."""
    scene = quiet_observation("orders")
    elsewhere = settled_table("clicks")
    lake = replace(elsewhere, identity=replace(elsewhere.identity, namespace="lake"))
    [group] = scene.groups
    assert group.spec is not None
    allowing = replace(group, spec=group.spec.model_copy(update={"allowed_namespaces": ("lake",)}))
    assert lake.spec is not None
    lake = replace(lake, spec=lake.spec.model_copy(update={"colocate_with": "shop/sales"}))
    server = Server()
    settle(server, replace(scene, groups=(allowing,), tables=(*scene.tables, lake)))
    assert server.claims.keys() == {SHOP, "lake"}
    assert all(is_served(server, namespace) for namespace in server.claims)


def test_a_namespace_made_again_gets_a_volume_of_its_own() -> None:
    """The old one waits for a claim that is gone; no one else gets it in between."""
    server = Server()
    settle(server, quiet_observation("orders"))
    [old] = server.volumes.values()
    del server.claims[SHOP]
    settle(server, quiet_observation("orders"))
    [new] = server.volumes.values()
    assert is_served(server, SHOP)
    assert (new.identity.uid, new.claim_uid) != (old.identity.uid, old.claim_uid)


def test_another_data_root_is_another_volume() -> None:
    """A volume's path cannot be changed."""
    server = Server()
    settle(server, quiet_observation("orders"))
    name = data_volume_name(SHOP)
    server.volumes[name] = replace(server.volumes[name], path="/old/shop")
    actions = settle(server, quiet_observation("orders"))
    assert [type(action) for action in actions] == [
        DeleteDataClaim, DeleteDataVolume, CreateDataClaim, CreateDataVolume,
    ]  # fmt: skip
    assert is_served(server, SHOP)


def test_what_no_group_needs_goes_and_what_is_in_doubt_stays() -> None:
    """A namespace without groups and tables gives its volume back; one with a table that no group takes keeps it."""
    server = Server()
    scene = quiet_observation("orders")
    settle(server, scene)
    refused = replace(scene.tables[0], spec=None, spec_error="unreadable")
    assert list(files_actions(server.observed(replace(scene, groups=(), tables=(refused,))))) == []
    settle(server, replace(scene, groups=(), tables=()))
    assert (server.claims, server.volumes) == ({}, {})


@pytest.mark.parametrize("found", [claim("elsewhere", is_ours=False), claim("elsewhere", is_deleting=True)])
def test_a_claim_of_others_is_not_deleted(found: ObservedClaim) -> None:
    """A tenant's own claim may have our name in a namespace without groups; one that goes already needs no order."""
    server = Server({"elsewhere": found})
    assert [one for one in files_actions(server.observed(Observation(NOW))) if isinstance(one, DeleteDataClaim)] == []


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (Server({SHOP: claim(is_ours=False)}), "PersistentVolumeClaim colocation-data of namespace shop"),
        (Server({}, {"colocation-shop": volume(is_ours=False)}), "PersistentVolume colocation-shop"),
    ],
    ids=["claim", "volume"],
)
def test_a_name_that_is_taken_is_said(server: Server, said: str) -> None:
    """By the group, whose pods would not start; its verdict is none the worse."""
    decision = decided(server.observed(quiet_observation("orders")))
    [written] = actions_of(decision, WriteGroupStatus)
    stalled = next(one for one in written.status["conditions"] if one["type"] == ConditionType.STALLED)  # type: ignore[attr-defined]
    assert (stalled["status"], stalled["reason"]) == ("True", Reason.DATA_CLAIM_TAKEN)
    assert stalled["message"].startswith(said)
    assert written.status["stable"] is True
    assert any(Reason.DATA_CLAIM_TAKEN in event.message for event in actions_of(decision, PostEvent))


@pytest.mark.parametrize("refused", ["bank", "lake", "shop"])
def test_the_first_namespace_of_a_group_with_a_problem_is_named(refused: str) -> None:
    """Of those in which its pods run."""
    scene = quiet_observation("orders")
    problem = {refused: RefusedFiles("no quota", NOW), "elsewhere": RefusedFiles("no quota", NOW)}
    cluster = assemble(replace(scene, refused_files=problem))
    [view] = cluster.groups.values()
    tables = [one._replace(table=replace(one.table, identity=replace(one.table.identity, namespace=name)))
              for one in view.tables for name in ("lake", "bank")]  # fmt: skip
    found = NamespaceFiles(cluster, ROOT).problem_of_group(replace(view, tables=tuple(tables)))
    assert found is not None and f"claim of namespace {refused}: no quota" in found.message


@pytest.mark.parametrize("deleting", [False, True])
def test_a_group_that_goes_needs_no_files(deleting: bool) -> None:
    """They stay as long as it is there."""
    scene = quiet_observation()
    [group] = scene.groups
    going = replace(group, identity=replace(group.identity, deleting=deleting))
    assert list(files_actions(replace(scene, groups=(going,)))) == ([] if deleting else [CreateDataClaim(SHOP)])


def test_a_claim_that_goes_is_waited_for() -> None:
    """And a volume for another claim goes once."""
    going = Server({SHOP: claim(is_deleting=True)})
    assert list(files_actions(going.observed(quiet_observation("orders")))) == []
    server = Server()
    settle(server, quiet_observation("orders"))
    name = data_volume_name(SHOP)
    server.volumes[name] = deleting(replace(server.volumes[name], claim_uid="another"))
    assert list(files_actions(server.observed(quiet_observation("orders")))) == []
    assert list(files_actions(server.observed(Observation(NOW)))) == [DeleteDataClaim(server.claims[SHOP].identity)]


def test_what_is_refused_waits_and_is_said() -> None:
    """A quota, for one: nothing is asked for again before its time, and then it is."""
    refused = RefusedFiles("exceeded quota: no-claims", NOW + seconds(60))
    scene = replace(quiet_observation("orders"), refused_files={SHOP: refused})
    assert list(files_actions(scene)) == []
    [written] = actions_of(decided(scene), WriteGroupStatus)
    stalled = next(one for one in written.status["conditions"] if one["type"] == ConditionType.STALLED)  # type: ignore[attr-defined]
    assert stalled["reason"] == Reason.DATA_CLAIM_REFUSED and "exceeded quota: no-claims" in stalled["message"]
    assert next_deadline(scene) == NOW + seconds(60)
    assert list(files_actions(replace(scene, now=NOW + seconds(60)))) == [CreateDataClaim(SHOP)]


def test_labels_alone_make_nothing_ours() -> None:
    """A pod's own claim gets its labels from the pod; a volume of another name or namespace is another's."""
    forged = data_claim(SHOP)
    forged["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "colocation"}]
    assert parse_claim(data_claim(SHOP)).is_ours and not parse_claim(forged).is_ours
    lent = data_volume(SHOP, ROOT, "uid-1")
    lent["metadata"]["name"] = "colocation-lake"
    assert parse_volume(lent).namespace == ""
    reserved = data_volume(SHOP, ROOT, "uid-1")
    reserved["spec"]["claimRef"]["namespace"] = "lake"
    assert parse_volume(reserved).claim_uid == ""
