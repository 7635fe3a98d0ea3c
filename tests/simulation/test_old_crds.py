"""P4: CRDs older than the operator drop fields of statuses. What is dropped is not written again with every pass."""

import pytest

from colocation.controller.kinds import CRDS
from colocation.kube.api import GROUPS, TABLES
from colocation.schema.crds import group_crd

from .scenes import MINUTE, Scene, play
from .users import SHOP

FIELDS = [
    ("clones",), ("clones", "counted"), ("disks",), ("members", "recycleAfterSeconds"), ("groupId",),
    ("conditions", "lastTransitionTime"), ("observedGeneration",), ("columns",), ("history",),
]  # fmt: skip


def count_patches(scene: Scene) -> dict[str, int]:
    """From here on: how many patches of groups' and tables' statuses the API server gets."""
    counts = {GROUPS.plural: 0, TABLES.plural: 0}
    merge = scene.world.api.merge

    def counted(resource, *arguments, **more):  # type: ignore[no-untyped-def]
        if resource.plural in counts:
            counts[resource.plural] += 1
        return merge(resource, *arguments, **more)

    scene.world.api.merge = counted  # type: ignore[method-assign]
    return counts


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
def test_what_the_api_server_drops_is_not_written_again(field: tuple[str, ...]) -> None:
    """Neither by the operator that ran, nor by one that starts; a change of what is kept is written still."""

    async def story(scene: Scene) -> None:
        await scene.make()
        scene.world.api.unknown_fields = {field}
        for name in ("sales", "orders"):
            resource = GROUPS if name == "sales" else TABLES
            scene.world.api.merge(resource, SHOP, name, {"status": {}}, "status")
        for _ in range(2):
            counts = count_patches(scene)
            await scene.sleep(5 * MINUTE)
            assert all(count <= 4 for count in counts.values()), counts
            scene.operator.restart()
        scene.world.take_down(scene.rows()[0][0])
        await scene.until(lambda: not scene.is_stable(), 3 * MINUTE)

    play(story, with_disks=True)


def test_old_crds_are_said_and_stop_deletions_until_they_are_applied() -> None:
    """What a group remembers of its tables may not be kept: no file goes because of it."""

    def stalled(scene: Scene) -> str:
        return next((one["reason"] for one in scene.status()["conditions"] if one["type"] == "Stalled"), "")

    async def story(scene: Scene) -> None:
        old = group_crd()
        status = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        recycled = status.pop("recycled")
        scene.world.api.add(CRDS, "", old)
        await scene.make()
        scene.world.api.unknown_fields = {("recycled",)}
        scene.operator.restart()
        await scene.until(lambda: stalled(scene) == "KindsOutdated", MINUTE)
        assert scene.is_stable()
        files = [file for machine in scene.world.machines.values() for file in machine.disk.files()]
        scene.users.drop_table(scene.table())
        await scene.sleep(10 * MINUTE)
        assert [file for machine in scene.world.machines.values() for file in machine.disk.files()] == files
        status["recycled"] = recycled
        scene.world.api.merge(CRDS, "", old["metadata"]["name"], {"spec": old["spec"]})
        scene.world.api.unknown_fields = set()
        await scene.until(lambda: stalled(scene) == "TooManyDeletions", 10 * MINUTE)  # it was not remembered

    play(story, with_disks=True)
