"""The one table of faults: what the runner does, what users may see, for how long, what they should do.

The runner takes its faults from here, the checker the errors that each allows, and ``tests/chaos/failure_modes.py``
makes docs/explanation/failure-modes.md of it. An error that no fault in force allows is a failure of the run.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorKind:
    """An error that users may meet. ``pattern``: found in its text; ``meaning``: for the documentation."""

    name: str
    pattern: re.Pattern[str]
    meaning: str


def _error(name: str, pattern: str, meaning: str) -> ErrorKind:
    return ErrorKind(name, re.compile(pattern, re.DOTALL), meaning)


ERRORS = {
    one.name: one
    for one in (
        _error("TooSlow", r"NoAnswerInTime",
               "a query or a load took longer than four minutes"),
        _error("NoReplica", r"no replica of|no node has|NoAgentAnswers|no agent of|FAILED_READ_FILE|nor at an agent",
               "no live node holds a file (or the table's manifest), or none could be reached in "
               "`spark.colocation.retrySeconds`"),
        _error("ReplicasMissing", r"ReplicasMissing",
               "a load found too few nodes for its copies; nothing was committed"),
        _error("ApiUnavailable", r"(?i)connection refused|timed out|timeout|NoAnswer|connection reset|RequestRefused|"
               r"ConnectException|unable to connect|ServiceUnavailable|etcdserver|EOF|TLS handshake|too old|"
               r"InternalError|KubernetesClientException|the server was unable|not ready|gave no answer|"
               r"may not see or change it|Forbidden|NotAllowed|TooManyRequests|"
               r"API server(?: \S+)? answered (?:429|5\d\d)|"
               r"connection to the server \S+ was refused|deadline exceeded|doesn't have a resource type",
               "the API server did not answer; a command, a query that begins or a commit fails after its retries. "
               "In its first second an API server may refuse what is allowed: it has not read the roles yet"),
        _error("CommitUnknown", r"CommitUnknown",
               "the API server did not say whether a load was committed; the message names the manifest to look for"),
        _error("SessionLost", r"SessionLost|Py4JNetwork|SparkContext (?:was|has been) shut ?down|"
               r"stopped SparkContext|Answer from Java side is empty|No active or default Spark session|"
               r"was deleted while it ran",
               "the Spark driver is gone, and what ran in it"),
        _error("TokenRefused", r"does not accept this application's token",
               "the driver's pod is younger than the copy from which etcd was restored, so its token is refused; start "
               "the application again"),
        _error("JobAborted", r"(?i)job aborted|ExecutorLost|executor lost|FetchFailed|SparkException: Job|"
               r"job cancelled|stage cancelled|heartbeat|SourceLost",
               "Spark gave a job up after its tasks had failed `spark.task.maxFailures` times, or each attempt of a "
               "MERGE lost executors that kept its source; nothing was changed"),
        _error("NotReady", r"NotReady|not accepted|NoMap|no map|is not back|is being brought back",
               "the table is not accepted, or is being brought back, or its group has no map yet"),
        _error("SchemaMismatch", r"SchemaMismatch|MissingColumns|INCOMPATIBLE_DATA_FOR_TABLE",
               "the table's columns were changed while a load of it began; nothing was loaded"),
        _error("LoadConflict", r"LoadConflict|WriteConflict",
               "another commit was first; the load changed nothing"),
        _error("SnapshotNotKept", r"keeps no snapshot",
               "an older snapshot that a query names is not kept any more"),
        _error("TableNotFound", r"TABLE_OR_VIEW_NOT_FOUND|NotInCatalog|NotFound|not found|no ColocatedTable|"
               r"does not exist|TableNotRegistered|was dropped again",
               "there is no such table at this moment"),
        _error("NodeNotFound", r"there is no node '",
               "a command names a node whose object is deleted"),
        _error("NothingDropped", r"no dropped table|there is nothing to recover|"
               r"no node that answers has a folder of table",
               "there is nothing to recover: the table is there, was never loaded, or is younger than the copy from "
               "which etcd was restored (see `colocation adopt`)"),
        _error("TableExists", r"exists; drop it before",
               "the table is there, so the one in the recycle bin cannot come back"),
    )
}  # fmt: skip


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault.

    Attributes:
        name: as in ``FAULTS=…``.
        how: what the runner does.
        users_see: in one sentence.
        for_how_long: until when.
        what_to_do: by users or administrators.
        errors: names of the errors that queries, loads and commands may end with while it is in force.
        hold_seconds: the runner heals it after so long (least, most); 0 = it is over at once.
        aftermath_seconds: errors and verdicts may still come from it so long after it was healed.
        unstable: whether groups may say that they are not stable.
        one_of: of the faults with the same word only one is in force at a time: those that take ``COPIES`` of
        rows away, those of the ``CONTROL_PLANE``, and those of ``CLOCKS``, as setting one right ends what another did.
        share: how often it is chosen, compared with others.
    """

    name: str
    how: str
    users_see: str
    for_how_long: str
    what_to_do: str
    errors: tuple[str, ...] = ()
    hold_seconds: tuple[int, int] = (0, 0)
    aftermath_seconds: int = 60
    unstable: bool = False
    one_of: str = ""
    share: float = 1.0


COPIES, CONTROL_PLANE, CLOCKS = "copies", "control plane", "clocks"
AWAY = ("JobAborted", "SessionLost", "NoReplica", "ReplicasMissing", "TooSlow")
"""When a node is away: the driver or executors may have been there; with one replica, so was the only copy."""
GOING = ("JobAborted", "SessionLost", "NotReady", "TooSlow", "NodeNotFound")
"""When a node goes that holds no replica any more: the driver or executors, or the operator, may have been there."""
NO_API = ("ApiUnavailable", "CommitUnknown", "NotReady")
API = (*NO_API, "TooSlow")
TOLERANCE = "`relocation.downToleranceSeconds` and the time of the copies"

KINDS: tuple[FaultKind, ...] = (
    FaultKind(
        "node-killed", "SIGKILL for the node's kubelet, containerd and all containers; it is started again with "
        "its disk",
        "The group is not stable (`NodeNotReady`). Joins read other replicas, without a shuffle while every bucket has "
        "one. Drivers and executors on the node are lost.",
        f"Until the node is back, else {TOLERANCE}",
        "Nothing. Applications whose driver was there are started again by their operator.",
        (*AWAY, *NO_API), (20, 60), 120, unstable=True, one_of=COPIES, share=2,
    ),
    FaultKind(
        "node-deleted", "the same, and the Node object is deleted; the node registers again when it is started",
        "The group is not stable (`NodeGone`); the replicas are made again at once, without a tolerance.",
        "The time of the copies", "Nothing. A node that comes back is used again.",
        (*AWAY, *NO_API, "NodeNotFound"), (20, 60), 150, unstable=True,
        one_of=COPIES,
    ),
    FaultKind(
        "node-added", "one node more is started",
        "Nothing: replicas move to it while the old ones serve, which are deleted once running executors know the "
        "node.", "", "Nothing.", share=0.5,
    ),
    FaultKind(
        "pool-upgraded", "one node more is started where there are three; then two nodes, one after the other, are "
        "drained by `kubectl drain`, and replaced by new machines as soon as that returns",
        "Drivers and executors on the nodes are evicted. The groups stay stable: a node goes when its replicas are "
        "complete on others.", "The time of the copies, and 150 s for each node",
        "Nothing. Compare the time of the copies with the tool's limit.", GOING, (150, 240), 240, one_of=COPIES,
        share=0.5,
    ),
    FaultKind(
        "autoscaler-took", "a node is tainted and its pods are evicted, as Cluster Autoscaler and Karpenter do; it "
        "is replaced by a new machine when its holder pod is gone",
        "As when a node pool is upgraded.", "The time of the copies, and 150 s",
        "Nothing. Leave `terminationGracePeriod` of a NodePool unset.", GOING, (150, 240), 240, one_of=COPIES,
        share=0.5,
    ),
    FaultKind(
        "partition", "the node's link is cut in both directions; its programs run on",
        "As when a node dies. A driver on the node cannot commit.",
        f"Until the network is back, else {TOLERANCE}", "Nothing.",
        (*AWAY, *NO_API), (10, 60), 120, unstable=True, one_of=COPIES, share=2,
    ),
    FaultKind(
        "partition-one-way", "packets to the node are dropped and those from it arrive, or the other way round",
        "As when a node dies.", f"Until the network is back, else {TOLERANCE}", "Nothing.",
        (*AWAY, *NO_API), (10, 45), 120, unstable=True, one_of=COPIES,
    ),
    FaultKind(
        "slow-link", "the node's link is limited to 8 Mbit per second",
        "Queries and loads that use the node take longer.", "Until the network is well", "Nothing.",
        ("TooSlow",), (20, 60), 30,
    ),
    FaultKind(
        "agent-killed", "the node's agent pod is deleted without grace",
        "Nothing: reads take another replica or wait, writes wait.", "Until its pod is ready, some seconds",
        "Nothing. Beyond 30 s the group reports `AgentNotReady`.", (), (0, 0), 90, unstable=True, share=2,
    ),
    FaultKind(
        "operator-killed", "the operator's pod is deleted without grace",
        "Nothing. After 40 s without a leader verdicts are unknown (`OperatorSilent`), and joins shuffle.",
        "Until its pod leads, some seconds", "Nothing. `operator.replicas=2` makes it shorter.",
        ("NotReady",), (0, 0), 60, share=2,
    ),
    FaultKind(
        "driver-killed", "the pod of the session's driver is deleted",
        "The session and what runs in it are gone. Loads are committed whole or not at all.", "Until it is "
        "started again",
        "Start it again. Look at the table's snapshot before a load is repeated.",
        ("SessionLost",), (0, 0), 90,
    ),
    FaultKind(
        "executor-killed", "a pod of one of the session's executors is deleted without grace",
        "Nothing: Spark repeats the tasks.", "Until another executor is there", "Nothing.", ("JobAborted",), (0, 0), 60,
    ),
    FaultKind(
        "clone-killed", "a node is given next to no weight, so that its replicas move; the pod of a clone Job is "
        "deleted without grace; then the node has its weight again",
        "Nothing: the clone is tried again.", "", "Nothing.", (), (15, 40), 60, unstable=True,
    ),
    FaultKind(
        "upgrade", "`helm upgrade` to the same build under another tag: operator and agents are replaced one by one",
        "Nothing, or a short `OperatorSilent`.", "While pods are replaced", "Nothing.", ("NotReady",), (0, 0), 150,
        unstable=True, one_of=CONTROL_PLANE,
    ),
    FaultKind(
        "api-server-stopped", "SIGKILL for the API server; it is started again",
        "Queries that begin wait for 25 s, then fail; commands fail at once, those that wait for a load after five "
        "minutes, commits after two; queries and loads that run go on.",
        "Until it answers",
        "Repeat what failed; for `CommitUnknown`, and for a load that was waited for, follow the message.",
        (*API, "JobAborted", "SessionLost"),
        (5, 150), 90,
        unstable=True, share=2, one_of=CONTROL_PLANE,
    ),
    FaultKind(
        "watches-cut", "SIGKILL for the API server, which is started again at once: all watches end",
        "As when the API server is stopped, for some seconds.", "Until it answers", "Nothing.",
        (*API, "JobAborted", "SessionLost"), (0, 0), 60, unstable=True, one_of=CONTROL_PLANE,
    ),
    FaultKind(
        "etcd-stopped", "SIGKILL for etcd; it is started again with its data",
        "As when the API server is stopped.", "Until it answers", "As when the API server is stopped.",
        (*API, "JobAborted", "SessionLost"), (5, 120), 90, unstable=True, one_of=CONTROL_PLANE,
    ),
    FaultKind(
        "etcd-restored", "API server and etcd are stopped, etcd's data is replaced by a copy that was taken "
        "some time before, "
        "and all programs of the control plane are started again",
        "Tables, groups and commits are as they were when the copy was made, and groups report `EtcdRestored`: nothing "
        "is deleted. A snapshot that the copy names is whole if it was still the newest one, or in the table's history "
        "(`spec.retention`), when etcd was restored.", "Until `colocation adopt -A --yes`",
        "Run that command: tables and commits since the copy come back, except of tables that were loaded since the "
        "restore. Start applications again that were started since the copy.",
        (
            *API, "JobAborted", "SessionLost", "TokenRefused", "LoadConflict", "SchemaMismatch", "TableNotFound",
            "NoReplica",
        ),
        (0, 0), 240,
        unstable=True, share=0.5, one_of=CONTROL_PLANE,
    ),
    FaultKind(
        "disk-gone", "all that is in the node's data root is moved away, as if another disk were mounted there; "
        "it comes back",
        "The group is not stable (`DiskMissing`).", f"Until the disk is back, else {TOLERANCE}",
        "Mount the disk and restart the agent; a new one: `colocation accept-disk`.",
        ("JobAborted", "NoReplica", "ReplicasMissing"), (20, 60), 120, unstable=True, one_of=COPIES,
    ),
    FaultKind(
        "disk-read-only", "the node's agent dies, and starts again with its data root mounted read-only",
        "Nothing, or loads that put the node's copies elsewhere; the node reports `DiskReadOnly`.",
        f"Until it is writable, else {TOLERANCE}", "Look at the kernel's log; mend or replace the disk.",
        ("JobAborted", "ReplicasMissing"), (20, 60), 120, unstable=True, one_of=COPIES,
    ),
    FaultKind(
        "disk-full", "the file system of the node's data is filled to the last byte",
        "Nothing, or loads that put the node's copies elsewhere; the node reports `DiskFull`. What it holds is read.",
        "Until there is room", "Make room or add nodes: `colocation nodes` shows what is full.",
        ("JobAborted", "ReplicasMissing"), (20, 60), 120, unstable=True, one_of=COPIES,
    ),
    FaultKind(
        "disk-failing", "the file system of the node's data is shut down (ext4's ioctl): reading and writing files "
        "fails with EIO, and what was not synced is lost; then the node is killed, and started again with the file "
        "system mounted again",
        "The group is not stable (`DiskFailing`): reads take another replica, loads put the node's copies elsewhere. "
        "Drivers and executors on the node are lost when it is started again.",
        f"Until the disk is well and the agent started again, else {TOLERANCE}",
        "Look at the kernel's log; mend or replace the disk. A new one: `colocation accept-disk`.",
        (*AWAY, *NO_API), (20, 60), 120, unstable=True, one_of=COPIES,
    ),
    FaultKind(
        "file-flipped", "a byte in the middle of a committed data file is changed on one node; its times stay",
        "Nothing, or a task that is repeated; the group reports `ReplicaCorrupt` once it is found.",
        "Until the file is copied again", "Nothing; look at the node's disk.", ("JobAborted",), (0, 0), 240,
        unstable=True,
        one_of=COPIES, share=2,
    ),
    FaultKind(
        "file-cut", "a committed data file is cut to half its length on one node",
        "As a changed byte.", "Until the file is copied again", "Nothing; look at the node's disk.",
        ("JobAborted",), (0, 0),
        180, unstable=True, one_of=COPIES,
    ),
    FaultKind(
        "file-gone", "a committed data file is removed on one node",
        "Nothing; the group reports `ReplicaIncomplete` once it is found.", "Until the file is copied again",
        "Nothing.",
        ("JobAborted",), (0, 0), 180, unstable=True, one_of=COPIES,
    ),
    FaultKind(
        "file-foreign", "files that are none of ours are put into a table's folder and into the data root of one node",
        "Nothing.", "", "Nothing.", (), (0, 0), 60,
    ),
    FaultKind(
        "image-missing", "the operator's image is taken from one node, which cannot pull it; it comes back",
        "Nothing, or a clone that goes to another node later (`CloneFailed`, `TargetFailing`); an agent that "
        "restarts there "
        "stays away.", "Until the image is there", "Bring the image to the node.", (), (30, 90), 120,
        unstable=True, share=0.5,
    ),
    FaultKind(
        "clock-stepped", "the wall clock of our own pods on one node jumps by 1 to 20 minutes ahead, or 1 to 30 "
        "behind, and back later; monotonic clocks go on, and Spark's pods keep the machine's clock. No further: "
        "tokens live an hour, and certificates are valid from an hour before they were signed, their CA from when the "
        "chart was installed",
        "Nothing: operator and drivers take the API server's time.",
        "Until the clock is right", "Set the node's clock; run NTP.", (), (20, 60), 60, one_of=CLOCKS,
    ),
)  # fmt: skip

COMMAND = re.compile(r"\A.* exited with \d+\n")
"""How ``demo.shell.CommandFailed`` begins."""
BY_NAME = {kind.name: kind for kind in KINDS}


def error_name(text: str) -> str | None:
    """The kind of an error by its text; None: of no kind."""
    return next((name for name in ERRORS if matches(name, text)), None)


def matches(name: str, text: str) -> bool:
    """Whether an error is of this kind, by its text; of a command that failed, by what it said."""
    return bool(ERRORS[name].pattern.search(said_by(text)))


def said_by(text: str) -> str:
    """What a command said, without its own words, which hold ``--request-timeout=…``; other texts as they are."""
    return COMMAND.sub("", text)
