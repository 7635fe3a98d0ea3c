"""Which files of a table stay, in every decision: those of what its status or its record calls live."""

from dataclasses import replace

import pytest

from colocation.model.group import RecycledTable
from colocation.model.table import ColocatedTableStatus, TableSnapshot
from colocation.state.assemble import assemble
from colocation.state.objects import ObservedTable
from colocation.state.observation import Observation

from ..reconcile.scenes import quiet_observation
from .objects import MANIFEST, NOW, group, table

OLD_MANIFEST = "b" * 64
HISTORY = (TableSnapshot(id=0, manifest=f"sha256:{OLD_MANIFEST}", committed_at="2026-11-21T00:00:00Z"),)
LOADED = table("orders")
RETAINING = replace(LOADED, status=LOADED.status.model_copy(update={"history": HISTORY}))
DROPPED = RecycledTable(
    namespace=LOADED.identity.namespace, name="orders", uid="dropped-uid", snapshot=LOADED.status.snapshot,
    deleted_at="2026-11-21T12:00:00Z", purge_at="2026-11-22T12:00:00Z",
)  # fmt: skip


def heir(name: str = "orders", recovers: str = "dropped-uid") -> ObservedTable:
    """A table that is to bring back a dropped one."""
    made = table(name)
    return replace(made, status=ColocatedTableStatus(), recovers=recovers)


@pytest.mark.parametrize(
    ("of", "live"),
    [
        pytest.param(LOADED, (MANIFEST,), id="loaded"),
        pytest.param(RETAINING, (MANIFEST, OLD_MANIFEST), id="with a retained snapshot"),
        pytest.param(replace(RETAINING, status_error="status.history: not a list"), (), id="not readable"),
        pytest.param(replace(LOADED, status=ColocatedTableStatus()), (), id="never loaded"),
        pytest.param(replace(LOADED, status=ColocatedTableStatus(history=HISTORY)), (), id="a history alone"),
        pytest.param(heir(), (MANIFEST,), id="brought back"),
        pytest.param(heir("lines"), (), id="of another name: it gets at no one's files"),
        pytest.param(heir(recovers="another-uid"), (), id="of what no one remembers"),
    ],
)
def test_live_manifests_of_a_table(of: ObservedTable, live: tuple[str, ...]) -> None:
    """Empty means that nothing is known to be garbage."""
    remembering = group()
    remembering = replace(remembering, status=remembering.status.model_copy(update={"recycled": (DROPPED,)}))
    [found] = assemble(Observation(NOW, groups=(remembering,), tables=(of,))).tables.values()
    assert found.live_manifests == live


def test_nothing_is_live_and_nothing_goes_of_a_table_at_fault() -> None:
    """No node has the manifest that its status names: what else is there may be all that is left."""
    observation = quiet_observation("orders")
    [found] = assemble(observation).tables.values()
    assert (found.fault, found.live_manifests) == (None, (MANIFEST,))
    without = {
        name: replace(view, tables={key: replace(one, manifest_present=False) for key, one in view.tables.items()})
        for name, view in observation.agent_views.items()
    }
    [found] = assemble(replace(observation, agent_views=without)).tables.values()
    assert found.fault is not None and found.live_manifests == ()
