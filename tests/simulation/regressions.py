"""Seeds that found something, and what. A seed means another story once the generator changes: what matters most has a
scene of its own in ``test_findings.py``.
"""

REGRESSIONS: dict[int, str] = {
    12: "deletions were refused for ever on quiet agents: an order's deadline was counted from an old report",
    19: "the folder of a dropped table was not told as unknown until something else changed on its node",
    30: "files on a node outside the map that lacked the live manifest stayed for ever",
    31: "a new operator called an unstable group stable before it had heard of the node",
    333: "a committed manifest without files made its group unstable for ever",
    60: "after a lost watch event every write failed until the next full list",
}
