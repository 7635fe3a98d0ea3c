"""A group of commands, each of which is imported only when it is run, asked for its help, or completed."""

import io
import sys
from importlib import import_module
from typing import Any

import click


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
        """Run a command; what the terminal's encoding lacks is printed as an escape."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        return super().main(*arguments, **options)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from .errors import failure_of  # here, since it knows the errors of libraries that take long to load

            if failure := failure_of(error):
                raise failure from error
            raise
