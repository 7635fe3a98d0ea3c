"""Seeded faults against the real operator: it never does harm, and when the faults end, all is well again.

The seeds are fixed here; `make simulate` takes new ones. `SEEDS=100-199 pytest tests/simulation/test_simulation.py`
runs just these.
"""

import os

import pytest

from .regressions import REGRESSIONS, WITH_BOTH, WITH_DISKS, WITH_RESTORES
from .story import tell

SEEDS = os.environ.get("SEEDS", "")


def seeds(count: int) -> list[object]:
    """So many, the second half deep."""
    return [pytest.param(seed, marks=pytest.mark.deep if seed >= count // 2 else ()) for seed in range(count)]


def named(first: str, _: str, last: str) -> list[object]:
    """Those that the environment names."""
    return list(range(int(first), int(last or first) + 1))


@pytest.mark.parametrize("seed", named(*SEEDS.partition("-")) if SEEDS else seeds(120))
def test_no_harm_and_all_well_in_the_end(seed: int) -> None:
    """Crashes, stale reads, lost answers, two operators, lost nodes, damaged files, full disks, clocks, tenants."""
    tell(seed)


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    """Every seed that ever found something."""
    tell(seed)


@pytest.mark.parametrize("seed", seeds(40))
def test_no_harm_and_all_well_in_the_end_with_sick_disks(seed: int) -> None:
    """Also disks that are read-only, failing, pulled out, swapped, put back, or sick and well by turns."""
    tell(seed, with_disks=True)


@pytest.mark.parametrize("seed", seeds(40))
def test_no_harm_and_all_well_in_the_end_when_etcd_is_restored(seed: int) -> None:
    """Also etcd, from copies of some minutes before; users drop, load and bring back all the time."""
    tell(seed, with_restores=True)


@pytest.mark.parametrize("seed", WITH_DISKS)
def test_what_sick_disks_found_once_stays_mended(seed: int) -> None:
    """Every seed that ever found something."""
    tell(seed, with_disks=True)


@pytest.mark.parametrize("seed", WITH_RESTORES)
def test_what_restores_of_etcd_found_once_stays_mended(seed: int) -> None:
    """Every seed that ever found something."""
    tell(seed, with_restores=True)


@pytest.mark.parametrize("seed", WITH_BOTH)
def test_what_both_together_found_once_stays_mended(seed: int) -> None:
    """Every seed that ever found something."""
    faults, _ = WITH_BOTH[seed]
    tell(seed, faults, with_disks=True, with_restores=True)
