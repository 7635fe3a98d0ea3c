"""The command's entry point. Exit codes: 0 done, 1 failed, 2 wrong usage."""

import click

from .adopt import adopt
from .advise import advise
from .approve import approve
from .compact import compact
from .completion import completion
from .discard import discard
from .doctor import doctor
from .drop_partitions import drop_partitions
from .errors import Commands
from .init import init
from .load import load
from .nodes import accept_disk, drain, nodes, undrain
from .planning import plan, snapshot
from .recover import recover
from .report import report
from .roll_back import roll_back
from .sql import sql
from .submit import submit
from .ui.command import ui
from .views import events, groups, show, tables


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="colocation", prog_name="colocation")
def main() -> None:
    """Colocation groups for PySpark on Kubernetes: inspect groups, load tables, run joins beside their data."""


for command in (
    groups, tables, nodes, show, events, plan, snapshot, drain, undrain, accept_disk,
    doctor, report, advise, completion, init, submit, load, compact, drop_partitions, roll_back, recover, adopt,
    discard, approve, sql, ui,
):  # fmt: skip
    main.add_command(command)
