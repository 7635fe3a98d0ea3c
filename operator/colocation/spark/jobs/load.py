"""``load.py TABLE --from PATH``: loads rows of files, or of any other Spark source, into a ColocatedTable."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from colocation.model.changes import unescape
from colocation.spark import configure, load
from colocation.spark.configuration import CATALOG, SessionSettings, qualified, quote
from colocation.spark.jobs.program import job_parser, print_result, printing_progress, stop
from colocation.spark.write.loading import MODES, LoadResult, MissingColumns

TEXT_TYPES = ("string", "varchar", "char")
CSV_OPTIONS = {"header": "true", "inferSchema": "true", "enforceSchema": "false"}
"""The first line names the columns, and their types are taken from the values. A file with other columns, or in another
order, ends the load: Spark would read it by the first file's order.
"""
MERGED_SCHEMA = {"mergeSchema": "true"}
"""Columns are those of all files: Spark would take the ones of a single file, and drop what only others have."""
DEFAULT_OPTIONS = {"csv": CSV_OPTIONS, "parquet": MERGED_SCHEMA, "orc": MERGED_SCHEMA}
"""By format; a given option of the same name wins, whatever its case."""
GUESSED_FORMATS = frozenset({"csv", "json"})
"""Whose types Spark takes from values."""
FILE_FORMATS = frozenset({"parquet", "orc", "avro"})
MARKS_OF_TABLES = {
    "_delta_log": "delta",
    ".hoodie": "hudi",
    "metadata/*.metadata.json": "iceberg",
    "../metadata/*.metadata.json": "iceberg",
}
"""Files in the folder of a table of another format, or next to its data folder."""
INSTEAD = {
    "iceberg": "Use --format iceberg --from CATALOG.NAMESPACE.TABLE, the table's name in a catalog that "
    "--set spark.sql.catalog.CATALOG=… configures (a path does not say which of its files are current)",
}
"""By kind of table, where the path is not what its format reads."""
FIRST_LOOK = {"fs.s3a.attempts.maximum": "1", "fs.s3a.retry.limit": "3", "fs.s3a.impl.disable.cache": "true"}
"""S3A repeats a request without an answer for more than six minutes, and prints nothing meanwhile."""
UNREACHABLE = ("java.net.", "javax.net.ssl.", "org.apache.hadoop.net.")
"""Packages of the errors of a store that does not answer: no server, name or route, a timeout, no TLS."""
SEPARATORS = {";": ";", "\t": "\\t", "|": "|"}
"""Of CSV files whose separator is no comma: the character, and how option ``sep`` writes it."""
NO_INPUT = "no input is given: name a path with --from; for a format without a path, such as jdbc, give --option"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with status 2 when it is wrong."""
    parser = job_parser("load.py", "Load rows into a ColocatedTable.")
    parser.add_argument("--from", dest="path", default=None, help="path or URL that Spark can read")
    parser.add_argument("--format", default="parquet", help="parquet, csv, json or any other format of Spark")
    parser.add_argument("--option", type=_option, action="append", default=[], metavar="KEY=VALUE",
                        help="option of the format; repeatable")
    parser.add_argument("--select", nargs="+", default=["*"], help="Spark SQL expressions, default: *")
    parser.add_argument("--mode", choices=MODES, default="append", help="default: %(default)s")
    parser.add_argument("--idempotency-key", default="", help="the table takes one load of this key")
    options = parser.parse_args(arguments)
    if options.path is None and not options.option:
        parser.error(NO_INPUT)
    options.option = dict(options.option)
    return options


def _option(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def read(
    spark: SparkSession,
    path: str | None,
    format_name: str,
    options: Mapping[str, str],
    types: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows, read with ``DEFAULT_OPTIONS`` unless ``options`` say otherwise.

    ``types``: of the table's columns (``column_types``). Texts stay texts (``kept_as_text``), and columns without any
    value get the table's types (``typed_if_empty``).
    """
    given = {key.lower() for key in options}
    defaults = DEFAULT_OPTIONS.get(format_name.lower(), {})
    options = {**{key: value for key, value in defaults.items() if key.lower() not in given}, **options}
    reader = spark.read.format(format_name).options(**options)
    if path is None:
        return reader.load()
    if format_name.lower() == "iceberg" and "/" not in path:
        refuse_unknown_catalog(spark, path)
        return reader.table(path)
    refuse_unreachable_store(spark, path)
    if format_name.lower() in FILE_FORMATS:
        refuse_table_folder(spark, path, format_name)
    types = types or {}
    texts = {name for name, kind in types.items() if kind.startswith(TEXT_TYPES)}
    is_csv = format_name.lower() == "csv"
    rows = kept_as_text(reader.load(path), texts, is_csv, lambda schema: reader.schema(schema).load(path))
    return typed_if_empty(rows, types) if format_name.lower() in GUESSED_FORMATS else rows


def refuse_unknown_catalog(spark: SparkSession, table: str) -> None:
    """Refuse a table's name whose catalog this session does not know: Iceberg would look into a Hive metastore.

    Raises:
        ValueError: nothing configures the catalog that it begins with.
    """
    named = table.partition(".")[0]
    if not any(spark.conf.get(f"spark.sql.catalog.{catalog}", "") for catalog in (named, "spark_catalog")):
        raise ValueError(
            f"--from {table}: this session has no catalog {named}; name the table CATALOG.NAMESPACE.TABLE, and "
            "configure it: --set spark.sql.catalog.CATALOG=org.apache.iceberg.spark.SparkCatalog, and its settings"
        )


def refuse_unreachable_store(spark: SparkSession, path: str) -> None:
    """Refuse a path of S3 at a server that does not answer, after a few attempts.

    Raises:
        ValueError: there is none at its address, or it cannot be reached.
    """
    if not path.startswith("s3a://"):
        return
    java: Any = spark._jvm
    configuration = java.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    for key, value in FIRST_LOOK.items():
        configuration.set(key, value)
    folder = java.org.apache.hadoop.fs.Path(path)
    try:
        store = folder.getFileSystem(configuration)
        try:
            store.exists(folder)
        finally:
            store.close()
    except Py4JJavaError as error:
        if not error.java_exception.getClass().getName().startswith(UNREACHABLE):
            return  # the read that follows reports why the path cannot be read
        reason = str(error.java_exception.getMessage()).splitlines()[0].rpartition("Exception: ")[2]
        raise ValueError(
            f"{path}: the store does not answer: {reason}; check its address (AWS_ENDPOINT_URL in the Secret, or --set "
            "spark.hadoop.fs.s3a.endpoint=…), and that pods of the namespace may reach it"
        ) from None


def refuse_table_folder(spark: SparkSession, path: str, format_name: str) -> None:
    """Refuse the folder of a table of another format, whose files also hold rows that were deleted or replaced.

    Raises:
        ValueError: it is one.
    """
    java: Any = spark._jvm
    configuration = spark._jsc.hadoopConfiguration()
    for mark, kind in MARKS_OF_TABLES.items():
        pattern = java.org.apache.hadoop.fs.Path(f"{path.rstrip('/')}/{mark}")
        try:
            found = pattern.getFileSystem(configuration).globStatus(pattern)
        except Py4JJavaError:
            return  # the read that follows reports why the path cannot be read
        if found:
            raise ValueError(
                f"{path} is the folder of a table of {kind}; read as {format_name} it would also give rows that were "
                f"deleted or replaced. {INSTEAD.get(kind, f'Use --format {kind}')}, with its jar in the image"
            )


def column_types(spark: SparkSession, table: str) -> dict[str, str]:
    """The types of a table's columns by their names, both in lower case. ``table``: its name in SQL.

    Raises:
        AnalysisException: there is no such table.
    """
    return {column.name.lower(): column.dataType.lower() for column in spark.catalog.listColumns(table)}


def kept_as_text(
    rows: DataFrame, texts: Collection[str], guesses_all: bool, read_as: Callable[[StructType], DataFrame]
) -> DataFrame:
    """The rows, read again where Spark has guessed another type for a text.

    Args:
        rows: as Spark reads them by itself.
        texts: columns that are text in the table, in lower case.
        guesses_all: whether types of all columns were taken from their values, as in CSV; else those of partition
            columns are, which only folders name.
        read_as: reads them with a schema.
    """
    fields: list[StructField] = rows.schema.fields
    guessed = {one.name for one in fields if one.name.lower() in texts and not isinstance(one.dataType, StringType)}
    if guessed and not guesses_all:
        of_folders = folder_columns(rows.inputFiles())
        guessed = {name for name in guessed if name.lower() in of_folders}
    if not guessed:
        return rows
    return read_as(StructType(
        [StructField(one.name, StringType()) if one.name in guessed else one for one in fields]
    ))  # fmt: skip


def typed_if_empty(rows: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """The rows with columns that have no value anywhere, as in a file with a header only, in the table's types.

    Spark takes such a column for text, which is no number; columns of text that has a value stay what they are.
    """
    others = [
        field.name for field in rows.schema.fields
        if isinstance(field.dataType, StringType) and not types.get(field.name.lower(), "string").startswith(TEXT_TYPES)
    ]  # fmt: skip
    if not others:
        return rows
    counts = rows.select([F.count(quote(name)) for name in others]).first()
    assert counts is not None, "counts of no rows are a row"
    empty = [name for name, count in zip(others, counts, strict=True) if not count]
    return rows.withColumns({name: F.lit(None).cast(types[name.lower()]) for name in empty}) if empty else rows


def folder_columns(files: Sequence[str]) -> frozenset[str]:
    """The partition columns that the folders of files name, in lower case: those of the first one."""
    folders = files[0].split("/")[:-1] if files else ()
    return frozenset(unescape(name).lower() for name, sign, _ in (part.partition("=") for part in folders) if sign)


def load_rows(rows: DataFrame, options: argparse.Namespace) -> LoadResult:
    """Load the rows that were read, by the command line's options.

    Raises:
        ValueError: the rows lack columns of the table; nothing was written.
        PySparkException: as for ``colocation.spark.load``.
    """
    key = options.idempotency_key
    try:
        return load(rows, options.table, namespace=options.namespace, mode=options.mode, idempotency_key=key)
    except MissingColumns as missing:
        raise ValueError(f"table {options.table}: {remedy(missing, rows.columns, options)}") from None


def remedy(missing: MissingColumns, given: Sequence[str], options: argparse.Namespace) -> str:
    """What is missing, and what to add to the command line."""
    if not given:
        return "the input has no columns, and so no rows: name files that have some"
    if options.format.lower() == "csv" and len(given) == 1 and (separator := separator_in(given[0])):
        return f"the input has one column, {given[0]}: add --option 'sep={separator}'"
    parent, named = base_path(options.path or "")
    lost = [column for column in missing.columns if column.lower() in named]
    if lost and "basepath" not in {key.lower() for key in options.option}:
        return (
            f"the input has no column {', '.join(lost)}: {options.path} is the folder of one partition, and Spark "
            f"takes partition columns from folders below the path only; add --option basePath={parent}"
        )
    others = f", of which the table has no {', '.join(missing.others)}" if missing.others else ""
    names = ", ".join(missing.under_other_names)
    renamed = f"under other names by --select '{names}', " if names else ""
    return (
        f"the input has no column {', '.join(missing.columns)}; it has {', '.join(given)}{others}. Give all columns of "
        f"the table, {renamed}for NULL by --select '{', '.join(missing.with_nulls)}'"
    )


def separator_in(name: str) -> str:
    """What separates names in a line that was read as a single one, as Spark's option ``sep`` takes it; else empty."""
    return next((written for sign, written in SEPARATORS.items() if sign in name), "")


def base_path(path: str) -> tuple[str, set[str]]:
    """The part of a path before the first folder of a partition, and the columns that its folders name, in lower case.

    ``s3a://lake/orders/dt=2026-11-21`` is ``("s3a://lake/orders", {"dt"})``.
    """
    parts = path.rstrip("/").split("/")
    places = [place for place, part in enumerate(parts) if part.find("=") > 0]
    columns = {unescape(parts[place].partition("=")[0]).lower() for place in places}
    return "/".join(parts[:places[0]] if places else parts), columns


def main(arguments: Sequence[str]) -> None:
    """Run the job."""
    options = parse(arguments)
    spark = configure(SparkSession.builder).getOrCreate()
    started = time.monotonic()
    table = qualified(CATALOG, SessionSettings.of(spark).namespace_or(options.namespace), options.table)
    types = column_types(spark, table)
    rows = read(spark, options.path, options.format, options.option, types).selectExpr(*options.select)
    with printing_progress(spark):
        result = load_rows(rows, options)
    print_result({"table": options.table, **asdict(result), "seconds": round(time.monotonic() - started, 3)})
    stop(spark)


if __name__ == "__main__":
    main(sys.argv[1:])
