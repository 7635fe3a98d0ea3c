"""``make mutants`` prints the changes that tests do not notice, and no others."""

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PRICES = """\
def cheapest(prices, most):
    return min((price for price in prices if price <= most), default=None)

def unused(number):
    return number + 1
"""
TEST = """\
from prices import cheapest

def test_cheapest():
    assert cheapest([3, 1, 2], 2) == 1
"""
SURVIVORS = [
    "prices.py:2 survived: for price in prices if price <= most  ->  for price in prices",
    "prices.py:2 survived: price <= most  ->  price < most",
    "prices.py:5 no test runs it: return number + 1  ->  return None",
    "prices.py:5 no test runs it: number + 1  ->  number - 1",
    "prices.py:5 no test runs it: 1  ->  2",
    "8 mutants: 3 killed, 2 survived, 3 no test runs it",
]


def test_survivors_are_listed(tmp_path: Path) -> None:
    """Killed: the smallest is the largest, nothing is returned, and only what is too expensive counts."""
    (tmp_path / "prices.py").write_text(PRICES)
    (tmp_path / "test_prices.py").write_text(TEST)
    command = [sys.executable, "-m", "tests.mutation", "prices.py", "--tests", "test_prices.py"]
    environment = os.environ | {"PYTHONPATH": f"{CHECKOUT}{os.pathsep}{tmp_path}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if ".py:" in line or " mutants: " in line] == SURVIVORS
