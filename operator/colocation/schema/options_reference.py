"""The reference page of the options of reads and writes, from their table; ``scripts/generate-reference`` writes it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLE = "spark_images/coloc-fs/src/main/resources/dev/colocation/spark/options/options.json"
WAYS = {
    "read": "reads",
    "write": "writes",
    "stream_read": "streams' reads",
    "stream_write": "streams' writes",
    "changes": "`CHANGES`",
}

HEAD = f"""\
# Options of reads and writes

Made from `{TABLE}` by `scripts/generate-reference`; do not edit.

Spark drops an option that a table does not know. So that none is lost which would have chosen rows, every option of a
statement about a table of the catalog is done, has no effect on rows, or is refused by name before anything is read
or written. An option that is in none of these lists is refused, too, with the spelling that was meant if there is one
like it: leave it out. Names have no case.

They are given as `df.write.option(…)`, `df.writeTo(…).option(…)`, `INSERT … WITH ('name' = 'value')`,
`spark.read.option(…).table(…)`, `SELECT … FROM t WITH ('name' = 'value')`, `spark.read.option(…).changes(…)`,
`writeStream.option(…).toTable(…)` and `readStream.option(…).table(…)`. Options that contradict each other
are refused: two snapshots, or two words on which rows an overwrite replaces (`replaceWhere` and a condition,
`PARTITION (…)`, `overwritePartitions()` or a dynamic mode).

`saveAsTable` with mode `overwrite` replaces the whole table, as `CREATE OR REPLACE TABLE … AS` does. With
`replaceWhere` or `partitionOverwriteMode=dynamic` it replaces these rows only and keeps the table's definition. If
the session's `spark.sql.sources.partitionOverwriteMode` is `dynamic`, it has to be given the option.

## Done

| option | in | what it does |
|---|---|---|
"""
PASSED = """
## Without effect

They are taken, so that code written for other formats runs, and named in the driver's log.

| options | of | in | why |
|---|---|---|---|
"""
REFUSED = """
## Refused

| options | of | use instead |
|---|---|---|
"""


def render(repository: Path) -> str:
    """The page."""
    options = json.loads((repository / TABLE).read_text())
    return HEAD + "".join(_done(options)) + PASSED + "".join(_passed(options)) + REFUSED + "".join(_refused(options))


def _done(options: list[dict[str, Any]]) -> Iterator[str]:
    for option in options:
        if "done" in option:
            yield f"| {_names(option)} | {_ways(option['done'])} | {_cell(option['does'])} |\n"


def _passed(options: list[dict[str, Any]]) -> Iterator[str]:
    for option in options:
        if "passed" in option:
            yield f"| {_names(option)} | {_of(option)} | {_ways(option['passed'])} | {_cell(option['because'])} |\n"


def _refused(options: list[dict[str, Any]]) -> Iterator[str]:
    for option in options:
        if "instead" in option:
            taken = [*option.get("done", ()), *option.get("passed", ())]
            where = f"in {_ways([way for way in WAYS if way not in taken])}: " if taken else ""
            yield f"| {_names(option)} | {_of(option)} | {where}{_cell(option['instead'])} |\n"


def _names(option: dict[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in option["names"])


def _of(option: dict[str, Any]) -> str:
    return ", ".join(option["of"])


def _ways(ways: list[str]) -> str:
    return "all" if len(ways) == len(WAYS) else ", ".join(WAYS[way] for way in ways)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
