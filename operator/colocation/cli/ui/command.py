"""The command ``ui``: starts the page's server, opens the browser, and ends at once when it is told to."""

import os
import signal
import webbrowser
from types import FrameType
from typing import NoReturn

import click

from ..terminal.options import Target, all_namespaces_option, cluster_options, operator_namespace_option, output_option
from ..terminal.output import Format, write
from .collector import Collector
from .server import UiServer


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine; default: a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address; open no browser.")
@all_namespaces_option
@cluster_options
@operator_namespace_option
@output_option
def ui(
    port: int, no_browser: bool, everywhere: bool, target: Target, operator_namespace: str, output: Format
) -> None:
    """Show groups, nodes and tables live in the browser.

    The page runs on this machine with your own rights, changes nothing, and listens on 127.0.0.1 only. Anyone who has
    the printed address and can reach this machine's loopback sees what you can see. Ctrl-C or SIGTERM ends it.
    """
    try:
        server = UiServer(Collector(target.open(), operator_namespace, everywhere).findings, port)
    except OSError as error:
        raise click.ClickException(f"port {port} cannot be used: {error.strerror}; choose another --port") from error
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    write({"url": server.url}, server.url, output)
    if not no_browser:
        webbrowser.open(server.first_url)
    server.serve_forever(poll_interval=1)  # a signal just before a poll does not end it


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """End at once, also in the background of a shell, where SIGINT was ignored, and amid answers.

    Nothing is left to tidy up. An interpreter that ends in order would stumble over the threads of open connections.
    """
    os._exit(0)
