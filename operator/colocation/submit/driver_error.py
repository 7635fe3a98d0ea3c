"""Why a driver failed, found in its log, and what to do about mistakes that newcomers make. Pure."""

import re
from collections.abc import Sequence
from typing import NamedTuple

TRACEBACK = "Traceback (most recent call last):"
UNCAUGHT = "Exception in thread "
CALL_OF_JAVA = "py4j.protocol.Py4JJavaError: "
_NOT_STARTED = re.compile(r"^(?:\w+\.py: error: .+|\S*python\S*: can't open file .+)$", re.MULTILINE)
"""Of a program that the image lacks, or that does not know its options; Spark then just has its exit code."""
_MODULES = re.compile(r"^(\w+\.)+(?=\w+(Error|Exception|Warning)?:( |$))")
"""The modules in front of an exception's class, which users do not need."""

_STATUS = re.compile(r"\. Received status: Status\(.*")
"""The whole answer of the API server, behind its message."""
_FAILED_TASK = re.compile(r"^.*Job aborted due to stage failure: .*?\(\S+ executor \S+\): ")
"""In front of why a task failed."""
_WAITED = "Exception thrown in awaitResult:"
"""A message that leaves the reason to its cause."""
_CAUSE = "Caused by: "
_NAMED_BY_SPARK = re.compile(r"\[(?!INTERNAL_ERROR)[A-Z_.]+\]|ExecutorLostFailure|NoAuthWithAWS")
"""In errors that need no cause: others, such as those of Iceberg's catalogs, may just report that a request failed."""


class _Mistake(NamedTuple):
    """An error of this pattern has this advice, which may use ``{namespace}`` and the pattern's groups."""

    pattern: re.Pattern[str]
    advice: str


def _mistake(pattern: str, advice: str) -> _Mistake:
    return _Mistake(re.compile(pattern), advice)


MISTAKES = (
    _mistake(r"\[TABLE_OR_VIEW_NOT_FOUND\]",
             "`colocation tables -n {namespace}` lists the tables; name one of another namespace NAMESPACE.TABLE"),
    _mistake(r"\[PARSE_SYNTAX_ERROR\].* near '(OPTIMIZE|ZORDER)'",
             "that is Delta's; here `colocation compact TABLE -n {namespace}` merges small files"),
    _mistake(r"\[PARSE_SYNTAX_ERROR\].* near 'VACUUM'",
             "that is Delta's; here old files go by themselves, by the table's spec.retention"),
    _mistake(r"\[PARSE_SYNTAX_ERROR\].* extra input '",
             "`colocation sql` takes one statement: if these are several, run it once for each"),
    _mistake(r'\[DATATYPE_MISMATCH\.BINARY_OP_DIFF_TYPES\].*"(DATE|TIMESTAMP\w*)"',
             "write a date as DATE '1995-01-31'"),
    _mistake(r'clusterrole\S* "colocation-[^"]+" not found',
             "the chart, which has these roles, is not installed: docs/how-to/install.md#install"),
    _mistake(r'User "system:serviceaccount:[^"]+" cannot ',
             "this account lacks the rights of a Spark driver: `colocation init -n {namespace} --service-account NAME` "
             "gives them, or name another account by --service-account"),
    _mistake(r"\b(?P<place>[a-z0-9-]+)(/\S+)?: this account may not see or change it",
             "to let Spark's account make, alter and drop tables there: kubectl create rolebinding spark-edits -n "
             "{place} --clusterrole=colocation-edit --serviceaccount={namespace}:spark; for rows alone "
             "--clusterrole=colocation-user is enough"),
    _mistake(r"\[PATH_NOT_FOUND\].* file:",
             "this is a path of the driver's own pod: name the store, as in s3a://lake/orders, or mount the files into "
             "driver and executors: docs/how-to/load-tables.md#volumes-sizes-and-settings-of-the-pods"),
    _mistake(r"NoAuthWithAWSException|No AWS Credentials provided|Unable to load credentials from",
             "name a Secret with the store's keys by --secret, or give Spark's account an identity: "
             "docs/how-to/load-tables.md#credentials"),
    _mistake(r"No FileSystem for scheme \"?s3n?\b", "write s3a://, which is Spark's name for S3"),
    _mistake(r"Cannot find catalog plugin class for catalog '(?!colocation')",
             "the image lacks the jar of this catalog: docs/how-to/load-tables.md#other-sources lists the jars"),
    _mistake(r"DELTA_CONFIGURE_SPARK_SESSION",
             "add --set spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --set "
             "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"),
    _mistake(r"No FileSystem for scheme|\[DATA_SOURCE_NOT_FOUND\]",
             "check its spelling; if it is right, the image lacks its jar: docs/how-to/own-images.md"),
    _mistake(r"CANNOT_READ_FILE_FOOTER|\[UNABLE_TO_INFER_SCHEMA\]",
             "if the files have another format, name it: --format csv, json, orc, …; if the folder is empty, check the "
             "path"),
    _mistake(r"^\w+\.py: error: unrecognized arguments|can't open file '/opt/colocation/jobs/",
             "the image is none of this command's release (`colocation --version`): name one by --image, or set the "
             "chart's spark.image; an image of your own needs this release's wheel: docs/how-to/own-images.md"),
    _mistake(r"\((StartError|ContainerCannotRun)\)",
             "the image has no program that starts Spark's pods: build it from colocation-spark, or from an image of "
             "Spark: docs/how-to/own-images.md"),
    _mistake(r"'JavaPackage' object is not callable",
             "if the call is one of colocation, the image's jar and Python package are of different releases: take "
             "both from one wheel, and leave spark.jars out: docs/how-to/own-images.md"),
    _mistake(r"ClassNotFoundException: dev\.colocation\.",
             "the image has no jar of colocation: build it from colocation-spark, or add the wheel to it: "
             "docs/how-to/own-images.md"),
)  # fmt: skip
"""The first that matches counts."""


def find_error(log: str) -> str:
    """The driver's error by its log, in one line: the end of the last Python traceback, why the program did not
    start, or Java's last uncaught exception; may be empty.

    An exception is named by its class alone. For a call of Java the cause is Java's own message.
    """
    _, mark, rest = log.rpartition(TRACEBACK)
    lines = rest.splitlines()
    if not mark:
        uncaught = [line for line in reversed(lines) if line.startswith(UNCAUGHT)]
        return next(iter(_NOT_STARTED.findall(log) or uncaught), "")
    number = next((number for number, line in enumerate(lines) if line and not line[0].isspace()), None)
    if number is None:
        return ""
    is_of_java = CALL_OF_JAVA in lines[number] and number + 1 < len(lines)
    number += is_of_java
    error = _why(lines[number].removeprefix(": ") if is_of_java else lines[number], lines[number + 1:])
    return _MODULES.sub("", _STATUS.sub("", error)).rstrip("; ")


def _why(error: str, following: Sequence[str]) -> str:
    """The reason in an error of several lines: of the failed task, of a cause that it is left to, or the next line.

    The last cause follows where the error has no name of Spark's.
    """
    causes = [line.removeprefix(_CAUSE) for line in following if line.startswith(_CAUSE)]
    reasons = (one for one in map(_of_task, (error, *causes)) if not one.endswith(_WAITED))
    error = next(reasons, error.rstrip())
    said = next(filter(None, map(str.strip, following)), "")
    if error.endswith(":") and not said.startswith("at "):
        return f"{error} {said}"
    leaves_it = causes and not _NAMED_BY_SPARK.search(error) and causes[-1] not in error
    return f"{error}: {causes[-1]}" if leaves_it else error


def _of_task(error: str) -> str:
    while found := _FAILED_TASK.match(error):
        error = error[found.end():]
    return error.rstrip()


def advice_on(error: str, namespace: str) -> str:
    """What to do about an error; empty when it needs no advice, or none is known."""
    found = ((mistake.advice, mistake.pattern.search(error)) for mistake in MISTAKES)
    advice, match = next((one for one in found if one[1]), ("", None))
    return advice.format(namespace=namespace, **(match.groupdict() if match else {}))
