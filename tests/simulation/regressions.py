"""Seeds that found something, and what; ``WITH_DISKS``: in stories in which disks get sick, too; ``WITH_RESTORES``: in
those in which etcd is restored.

A seed means another story once the generator changes: what matters most has a scene of its own in ``test_findings.py``.
"""

REGRESSIONS: dict[int, str] = {
    12: "deletions were refused for ever on quiet agents: an order's deadline was counted from an old report",
    19: "the folder of a dropped table was not reported as unknown until something else changed on its node",
    30: "files on a node outside the map that lacked the live manifest stayed for ever",
    31: "a new operator called an unstable group stable before it had heard of the node",
    333: "a committed manifest without files made its group unstable for ever",
    60: "after a lost watch event every write failed until the next full list",
    1000: "the simulation's own limit of a verdict did not know of lost watch events",
    1087: "the simulation's own limit of a verdict did not know of stale lists",
    1098: "the simulation did not count a node that lacks the manifest as incomplete",
    2059: "the simulation emptied bins by the node's clock, which steps; agents count the time that they saw pass",
    509605303: "as 1098, after a first commit",
    2959572445: "an answer that was long on its way reported an old uptime, and every order was refused from then on",
}

WITH_DISKS: dict[int, str] = {
    1356821755: "the simulation's own limit of a verdict did not know that the leader's API server was away",
    16: "the simulation judged a drop by a map that strict balancing had written ahead of its data since",
    29: "the simulation judged a drop by what was asked after it was decided: a load had committed meanwhile",
    1053904187: "the simulation took what a frozen operator sends when it goes on for a late verdict",
    3122100587: "a quiet group was called stable with a failing disk: the planner's quick look did not see it",
}

WITH_RESTORES: dict[int, str] = {
    13: "of a dropped table no one knew the folder that it had after the copy (fails without `colocation adopt`)",
    20: "as 13",
    55: "loads before a drop, between the restore and the operator's start, came back as of the copy",
    59: "as 55",
    17: "the administrator took the manifest of a load that had failed for a commit (fails without a majority)",
    3099: "retained snapshots were in a folder that went, as the live one of the table was empty",
    4817107: "the simulation did not know that a node of a map had been away just before it came into the map",
    1801243611: "the simulation took a copy for spare which a change waits for that a full node holds up",
}

WITH_BOTH: dict[int, tuple[int, str]] = {
    3267641923: (17, "a table that came back and was dropped at once was remembered twice; the older record hung"),
    2034374042: (30, "the simulation made the disk with a lost table's last copy read-only for ever"),
}
"""Seed -> how many faults, and what it found."""
