"""The command's entry point. Exit codes: 0 done, 1 failed, 2 wrong usage.

A command's module is imported only when the command is run, completed or asked for its help.
"""

import io
import signal
import sys
from importlib import import_module
from typing import Any

import click

REPEATABLE = ("drain", "undrain", "accept-disk", "init", "recover", "adopt", "approve")
"""These change the cluster themselves; what they had changed when they are interrupted stays."""

OF_NAMESPACES = ("-n", "--namespace", "-A", "--all-namespaces")


class LateCommand(click.Command):
    """A command's place in the list: its name and the first sentence of its help, until its module is needed."""

    def __init__(self, name: str, module: str, first_sentence: str) -> None:
        super().__init__(name, help=first_sentence)
        self._module = module

    def load(self) -> click.Command:
        """The command itself."""
        command: click.Command = getattr(import_module(self._module), str(self.name).replace("-", "_"))
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command itself, which parses, completes and runs."""
        return self.load().make_context(info_name, args, parent, **extra)


class Commands(click.Group):
    """A group of commands that turns the errors of the layers below into messages, never into tracebacks."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command; what the terminal's encoding lacks is printed as an escape. SIGTERM ends it as Ctrl-C does."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return super().main(*arguments, **options)
        finally:
            signal.signal(signal.SIGTERM, before)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a command's option in front of the command with where it belongs: kubectl takes it in both places."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            belongs = f"options follow the command: {ctx.command_path} COMMAND {error.option_name} …"
            raise click.UsageError(f"{error.format_message()} If it is one of a command, {belongs}", ctx) from error

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.option_name not in OF_NAMESPACES or error.ctx is None:
                raise
            whole = f"`colocation {error.ctx.info_name}` is about the whole cluster: leave {error.option_name} out"
            raise click.UsageError(f"{error.format_message()} {whole}.", error.ctx) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            stays = "what it had changed stays; repeat the command for the rest"
            outcome = stays if ctx.invoked_subcommand in REPEATABLE else "nothing was changed"
            from .errors import CommandFailed  # here, since it knows the errors of libraries that take long to load

            raise CommandFailed(f"interrupted; {outcome}") from None
        except Exception as error:
            from .errors import failure_of

            if failure := failure_of(error):
                raise failure from error
            raise


COMMANDS = (
    ("groups", "inspect.objects", "List groups, whether they are stable, and why not."),
    ("tables", "inspect.objects", "List tables, their groups, and what is loaded."),
    ("nodes", "inspect.nodes", "List nodes: readiness, weight, replicas, disk."),
    ("show", "inspect.objects", "Show GROUP in full: map, replicas, conditions."),
    ("events", "inspect.objects", "List the events of GROUP, oldest first."),
    ("plan", "inspect.moves", "Show what the operator would move, and why."),
    ("snapshot", "inspect.moves", "Print the state that the operator plans from."),
    ("drain", "inspect.nodes", "Move all replicas away from NODE."),
    ("undrain", "inspect.nodes", "Allow NODE to hold replicas again."),
    ("accept-disk", "inspect.nodes", "Accept DISK as the data disk of NODE."),
    ("doctor", "doctor.command", "Check the installation, and say what to do."),
    ("report", "doctor.report", "Collect what a bug report needs into one archive."),
    ("advise", "inspect.sizing", "Suggest buckets and replicas for a group."),
    ("completion", "terminal.completion", "Print a completion script for SHELL."),
    ("init", "init", "Prepare NAMESPACE for Spark and groups."),
    ("submit", "jobs.launch", "Run a SparkApplication on the nodes of its group."),
    ("load", "jobs.table_commands", "Load rows into TABLE."),
    ("compact", "jobs.table_commands", "Merge the files of TABLE into few sorted ones."),
    ("drop-partitions", "jobs.table_commands", "Drop partitions of TABLE with all their rows."),
    ("rebucket", "jobs.table_commands", "Give TABLE another number of buckets."),
    ("roll-back", "jobs.table_commands", "Make an older snapshot's rows the rows of TABLE again."),
    ("recover", "recover.recover", "Bring a dropped table back from the recycle bin."),
    ("adopt", "recover.adopt", "Take over what the nodes hold after objects were lost."),
    ("approve", "inspect.moves", "Approve the proposed moves of GROUP."),
    ("sql", "jobs.statement", "Run a SQL statement in the cluster; print its rows."),
    ("ui", "ui.server", "Show groups, nodes and tables live in the browser."),
)
"""Name, module and the first sentence of its help: `--help` and shells list them without loading any module."""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="colocation", prog_name="colocation")
def main() -> None:
    """Colocation groups for PySpark on Kubernetes: inspect groups, load tables, run joins next to their data."""


for name, module, first_sentence in COMMANDS:
    main.add_command(LateCommand(name, f"colocation.cli.{module}", first_sentence))
