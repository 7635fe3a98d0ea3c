"""The command's entry point. Exit codes: 0 done, 1 failed, 2 wrong usage."""

import click

from .commands import Commands, LateCommand

COMMANDS = (
    ("groups", "views", "List groups, whether they are stable, and why not."),
    ("tables", "views", "List tables, their groups, and what is loaded."),
    ("nodes", "nodes", "List nodes: readiness, weight, replicas, disk."),
    ("show", "views", "Show GROUP in full: map, replicas, conditions."),
    ("events", "views", "List the events of GROUP, oldest first."),
    ("plan", "planning", "Show what the operator would move, and why."),
    ("snapshot", "planning", "Print the state that the operator plans from."),
    ("drain", "nodes", "Move all replicas away from NODE."),
    ("undrain", "nodes", "Allow NODE to hold replicas again."),
    ("accept-disk", "nodes", "Accept DISK as the data disk of NODE."),
    ("doctor", "doctor", "Check the installation, and say what to do."),
    ("report", "report", "Collect what a bug report needs into one archive."),
    ("advise", "advise", "Suggest buckets and replicas for a group."),
    ("completion", "completion", "Print a completion script for SHELL."),
    ("init", "init", "Prepare NAMESPACE for Spark and groups."),
    ("submit", "submit", "Run a SparkApplication on the nodes of its group."),
    ("load", "load", "Load rows into TABLE."),
    ("compact", "compact", "Merge the files of TABLE into few sorted ones."),
    ("drop-partitions", "drop_partitions", "Drop partitions of TABLE with all their rows."),
    ("roll-back", "roll_back", "Make an older snapshot's rows the rows of TABLE again."),
    ("recover", "recover", "Bring a dropped table back from the recycle bin."),
    ("adopt", "adopt", "Recreate lost tables from the files on the nodes."),
    ("discard", "discard", "Let the files of deleted tables go."),
    ("approve", "approve", "Approve the proposed moves of GROUP."),
    ("sql", "sql", "Run a SQL statement in the cluster; print its rows."),
    ("ui", "ui.command", "Show groups, nodes and tables live in the browser."),
)
"""Name, module and the first sentence of its help: `--help` and shells list them without loading any module."""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="colocation", prog_name="colocation")
def main() -> None:
    """Colocation groups for PySpark on Kubernetes: inspect groups, load tables, run joins beside their data."""


for name, module, first_sentence in COMMANDS:
    main.add_command(LateCommand(name, f"colocation.cli.{module}", first_sentence))
