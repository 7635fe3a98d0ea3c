"""A short run of chaos with a fixed seed, on the cluster of this story: nothing lost, every answer right."""

import pytest

from tests.chaos.plan import make_plan
from tests.chaos.runner import run_plan

from .conftest import VALUES, Loaded

pytestmark = [pytest.mark.e2e, pytest.mark.deep]

SEEDS = (1,)
MINUTES = 3.0
FAULTS = (
    "node-killed", "partition", "agent-killed", "operator-killed", "executor-killed", "file-flipped", "file-gone",
    "api-server-stopped", "slow-link",
)  # fmt: skip
"""Those that leave the rest of the story as it was."""


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_every_answer_is_right(loaded: Loaded, seed: int) -> None:
    """What went wrong is said with its timeline, and the command that runs it again."""
    ran = run_plan(make_plan(seed, MINUTES, FAULTS), VALUES)
    assert not ran.problem, ran.problem
    assert ran.verdict.queries > 0
