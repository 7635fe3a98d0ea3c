"""The command's entry point. Exit codes: 0 done, 1 failed, 2 wrong usage."""

import click

from .commands import Commands, LateCommand

COMMANDS = (
    ("groups", "inspect.views", "List groups, whether they are stable, and why not."),
    ("tables", "inspect.views", "List tables, their groups, and what is loaded."),
    ("nodes", "inspect.nodes", "List nodes: readiness, weight, replicas, disk."),
    ("show", "inspect.views", "Show GROUP in full: map, replicas, conditions."),
    ("events", "inspect.views", "List the events of GROUP, oldest first."),
    ("plan", "inspect.planning", "Show what the operator would move, and why."),
    ("snapshot", "inspect.planning", "Print the state that the operator plans from."),
    ("drain", "inspect.nodes", "Move all replicas away from NODE."),
    ("undrain", "inspect.nodes", "Allow NODE to hold replicas again."),
    ("accept-disk", "inspect.nodes", "Accept DISK as the data disk of NODE."),
    ("doctor", "doctor.command", "Check the installation, and say what to do."),
    ("report", "doctor.report", "Collect what a bug report needs into one archive."),
    ("advise", "inspect.advise", "Suggest buckets and replicas for a group."),
    ("completion", "terminal.completion", "Print a completion script for SHELL."),
    ("init", "init", "Prepare NAMESPACE for Spark and groups."),
    ("submit", "jobs.submit", "Run a SparkApplication on the nodes of its group."),
    ("load", "jobs.load", "Load rows into TABLE."),
    ("compact", "jobs.compact", "Merge the files of TABLE into few sorted ones."),
    ("drop-partitions", "jobs.drop_partitions", "Drop partitions of TABLE with all their rows."),
    ("roll-back", "jobs.roll_back", "Make an older snapshot's rows the rows of TABLE again."),
    ("recover", "recover.recover", "Bring a dropped table back from the recycle bin."),
    ("adopt", "recover.adopt", "Take over what the nodes hold after objects were lost."),
    ("approve", "inspect.approve", "Approve the proposed moves of GROUP."),
    ("sql", "jobs.sql", "Run a SQL statement in the cluster; print its rows."),
    ("ui", "ui.command", "Show groups, nodes and tables live in the browser."),
)
"""Name, module and the first sentence of its help: `--help` and shells list them without loading any module."""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="colocation", prog_name="colocation")
def main() -> None:
    """Colocation groups for PySpark on Kubernetes: inspect groups, load tables, run joins beside their data."""


for name, module, first_sentence in COMMANDS:
    main.add_command(LateCommand(name, f"colocation.cli.{module}", first_sentence))
