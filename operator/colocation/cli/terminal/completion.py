"""``completion``: a shell script that completes commands, options, and names of groups, tables and nodes."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_COLOCATION_COMPLETE"
INSTALL = {
    "bash": 'echo \'source <(colocation completion bash)\' >> ~/.bashrc',
    "zsh": "echo 'source <(colocation completion zsh)' >> ~/.zshrc",
    "fish": "colocation completion fish > ~/.config/fish/completions/colocation.fish",
}


@click.command(epilog="To install it: " + "; ".join(f"{shell}: {words}" for shell, words in INSTALL.items()))
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for SHELL.

    The script asks the API server for the names of groups, tables and nodes. If it does not answer, no names are
    offered.
    """
    made = get_completion_class(shell)
    assert made, "click knows the shells that are allowed"
    click.echo(made(context.find_root().command, {}, "colocation", VARIABLE).source())
