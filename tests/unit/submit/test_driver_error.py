"""What is found in the logs of drivers that failed, and the advice on it."""

import pytest

from colocation.submit.driver_error import advice_on, find_error

CALL = "Traceback (most recent call last):\n  a\npy4j.protocol.Py4JJavaError: An error occurred\n"
WAITED = "Exception thrown in awaitResult:"
TASK = (
    "Job aborted due to stage failure: Task 0 in stage 2.0 failed 4 times, most recent failure: Lost task 0.3 in stage "
    "2.0 (TID 5) (10.244.1.27 executor 2)"
)
SPARK = "org.apache.spark.SparkException"
FORBIDDEN = 'pods "x" is forbidden: User "system:serviceaccount:shop:default" cannot get resource "pods"'
FOOTER = f"{SPARK}: [FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] no footer in x.csv"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param("", "", id="no log"),
        pytest.param("INFO fine", "", id="no exception"),
        pytest.param("Exception in thread main x.Y: z\n\tat a.b", "Exception in thread main x.Y: z", id="Java"),
        pytest.param("/opt/python/bin/python: can't open file '/opt/colocation/jobs/sql.py': [Errno 2] No such file\n"
                     "Exception in thread main x.SparkUserAppException: User application exited with 2\n\tat a.b",
                     "/opt/python/bin/python: can't open file '/opt/colocation/jobs/sql.py': [Errno 2] No such file",
                     id="no program"),
        pytest.param("usage: load.py [-h] table\nload.py: error: unrecognized arguments: --new\n"
                     "Exception in thread main x.SparkUserAppException: User application exited with 2\n\tat a.b",
                     "load.py: error: unrecognized arguments: --new", id="a program of another release"),
        pytest.param("Traceback (most recent call last):\n  a\nA: 1\nTraceback (most recent call last):\n  b\nB: 2",
                     "B: 2", id="the last of two"),
        pytest.param("Traceback (most recent call last):\n  a\npyspark.errors.exceptions.captured.AnalysisException: "
                     "[UNRESOLVED_COLUMN] no o_ky; line 1;\n'Project ['o_ky]\n+- Relation\n",
                     "AnalysisException: [UNRESOLVED_COLUMN] no o_ky; line 1", id="Spark's, without its plan"),
        pytest.param("Traceback (most recent call last):\n  a\npy4j.protocol.Py4JJavaError: An error occurred while "
                     "calling o1.load.\n: java.nio.file.AccessDeniedException: s3a://lake: 403\n\tat a.b",
                     "AccessDeniedException: s3a://lake: 403", id="a call of Java"),
        pytest.param("Traceback (most recent call last):\n  a\npyspark.errors.exceptions.captured.ParseException: \n"
                     "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. (line 1, pos 0)\n\n== SQL ==\nSELEC 1\n",
                     "ParseException: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. (line 1, pos 0)",
                     id="a message on the next line"),
        pytest.param(f"{CALL}: {SPARK}: {TASK}: {SPARK}: {WAITED} \n\tat a.b\nCaused by: {FOOTER}\n\tat a.b\n"
                     "Caused by: java.lang.RuntimeException: no magic number",
                     "SparkException: [FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] no footer in x.csv",
                     id="a task that leaves it to its cause"),
        pytest.param(f"{CALL}: {SPARK}: {WAITED} \n\tat a.b\nCaused by: {SPARK}: {TASK}: {FOOTER}",
                     "SparkException: [FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] no footer in x.csv",
                     id="a cause that is a task's"),
        pytest.param(f"{CALL}: org.apache.iceberg.exceptions.RESTException: Error occurred while processing GET\n"
                     "Caused by: java.net.ConnectException: http://catalog: Connection refused\n\tat a.b",
                     "RESTException: Error occurred while processing GET: java.net.ConnectException: http://catalog: "
                     "Connection refused", id="an error without a reason"),
        pytest.param(f"{CALL}: {SPARK}: no scheduler\nCaused by: x.ApiError: {FORBIDDEN}. Received status: "
                     f"Status(code=403, message={FORBIDDEN}, metadata=ListMeta(), reason=Forbidden)\n\tat a.b",
                     f"SparkException: no scheduler: x.ApiError: {FORBIDDEN}", id="a Status"),
        pytest.param(f"{CALL}: {SPARK}: {WAITED} \n\tat a.b", f"SparkException: {WAITED}", id="no cause"),
        pytest.param(f"{CALL}: {SPARK}: {TASK}: ExecutorLostFailure (executor 2 exited)",
                     "ExecutorLostFailure (executor 2 exited)", id="an executor was lost"),
    ],
)  # fmt: skip
def test_the_exception_is_found_in_the_log(log: str, expected: str) -> None:
    """The line that names the exception, without its stack."""
    assert find_error(log) == expected


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        pytest.param("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table or view `ordrs` cannot be found.",
                     "`colocation tables -n shop` lists the tables", id="a misspelt table"),
        pytest.param(f'{FORBIDDEN}: RBAC: clusterrole.rbac.authorization.k8s.io "colocation-user" not found',
                     "the chart, which has these roles, is not installed", id="an uninstalled chart"),
        pytest.param(FORBIDDEN, "colocation init -n shop --service-account", id="an account without rights"),
        pytest.param("AnalysisException: [PATH_NOT_FOUND] Path does not exist: file:/lake/orders. SQLSTATE: 42K03",
                     "a path of the driver's own pod: name the store", id="a path of this machine"),
        pytest.param("AccessDeniedException: s3a://lake: org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS "
                     "Credentials provided by TemporaryAWSCredentialsProvider", "by --secret", id="no credentials"),
        pytest.param('UnsupportedFileSystemException: No FileSystem for scheme "s3"', "write s3a://", id="s3"),
        pytest.param('UnsupportedFileSystemException: No FileSystem for scheme "gs"', "lacks its jar", id="gs"),
        pytest.param("SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: parket.",
                     "check its spelling", id="a misspelt format"),
        pytest.param("SparkException: Cannot find catalog plugin class for catalog 'lake': org.apache.iceberg.spark.X.",
                     "the image lacks the jar of this catalog", id="a catalog's jar"),
        pytest.param("AnalysisException: [DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG] This operation",
                     "--set spark.sql.extensions=io.delta", id="a session without Delta"),
        pytest.param(FOOTER, "--format csv, json", id="a file of another format"),
        pytest.param("AnalysisException: [UNABLE_TO_INFER_SCHEMA] Unable to infer schema for Parquet.",
                     "if the folder is empty", id="an empty folder"),
        pytest.param("python: can't open file '/opt/colocation/jobs/sql.py': [Errno 2] No such file or directory",
                     "none of this command's release", id="an image without our programs"),
        pytest.param("the driver ended with exit code 128 (StartError)", "no program that starts Spark's pods",
                     id="an image without Spark"),
        pytest.param("load.py: error: unrecognized arguments: --new", "none of this command's release",
                     id="an image of another release"),
        pytest.param("AnalysisException: ColocatedTable shop/orders: this account may not see or change it; check the "
                     "name, or ask for ClusterRole colocation-user in that namespace, for changes colocation-edit",
                     "kubectl create rolebinding spark-edits -n shop --clusterrole=colocation-edit",
                     id="an account that may not change definitions"),
        pytest.param("AnalysisException: ColocatedTable accounts/names: this account may not see or change it; check",
                     "-n accounts --clusterrole=colocation-edit --serviceaccount=shop:spark; for rows alone "
                     "--clusterrole=colocation-user is enough", id="a table of another namespace"),
        pytest.param("AnalysisException: tables of namespace accounts: this account may not see or change it; check",
                     "-n accounts --clusterrole=colocation-edit", id="the tables of another namespace"),
        pytest.param("ParseException: [PARSE_SYNTAX_ERROR] Syntax error at or near 'OPTIMIZE'. SQLSTATE: 42601 (line "
                     "1, pos 0)", "`colocation compact TABLE -n shop`", id="Delta's OPTIMIZE"),
        pytest.param("ParseException: [PARSE_SYNTAX_ERROR] Syntax error at or near 'VACUUM'. SQLSTATE: 42601",
                     "spec.retention", id="Delta's VACUUM"),
        pytest.param("ParseException: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELECT': extra input 'SELECT'. "
                     "SQLSTATE: 42601", "one statement", id="two statements"),
        pytest.param('AnalysisException: [DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES] Cannot resolve "(o_orderdate = '
                     '((1995 - 1) - 1))" due to data type mismatch: incompatible types ("DATE" and "INT").',
                     "DATE '1995-01-31'", id="a date without quotes"),
        pytest.param("TypeError: 'JavaPackage' object is not callable",
                     "the image's jar and Python package are of different releases", id="a jar of another release"),
        pytest.param("ClassNotFoundException: dev.colocation.spark.ColocationPlugin",
                     "the image has no jar of colocation", id="an image of Spark's"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_next_step(error: str, advice: str) -> None:
    """A newcomer's next step, not only Spark's name of the error."""
    assert advice in advice_on(error, "shop")


@pytest.mark.parametrize("error", [
    pytest.param("AnalysisException: [PATH_NOT_FOUND] Path does not exist: s3a://lake/ordrs.", id="a path of a store"),
    pytest.param("AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] Did you mean `o_orderkey`?", id="a column"),
    pytest.param("KeyError: 'x'", id="the program's own"),
])  # fmt: skip
def test_an_error_that_explains_itself_has_no_advice(error: str) -> None:
    """Nothing is added to it."""
    assert advice_on(error, "shop") == ""
