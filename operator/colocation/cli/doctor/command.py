"""``doctor``: looks the installation over, and says what to do about what it finds."""

import click

from ..errors import FAILED
from ..terminal.options import Target, cluster_options, operator_namespace_option, output_option
from ..terminal.output import Format, write
from .checks import Finding, diagnose
from .facts import gather

MARKS = {"ok": "ok", "note": "note", "warning": "WARN", "error": "FAIL"}


@click.command()
@cluster_options
@operator_namespace_option
@output_option
@click.pass_context
def doctor(context: click.Context, target: Target, operator_namespace: str, output: Format) -> None:
    """Check the installation, and say what to do.

    The checks: kinds, your rights, operator, agents, versions, reachability, disks, webhooks, groups. They change
    nothing. Exit code 1 if a check fails; warnings and notes alone give 0.
    """
    cluster = target.open()
    findings = diagnose(gather(cluster.connection, cluster.namespace, operator_namespace))
    write([finding.to_json_dict() for finding in findings], render(findings), output)
    if any(finding.level == "error" for finding in findings):
        context.exit(FAILED)


def render(findings: list[Finding]) -> str:
    """A line per finding, its advice below it."""
    lines = []
    for finding in findings:
        lines.append(f"{MARKS[finding.level]:<5} {finding.check:<13} {finding.message}".rstrip())
        if finding.advice:
            lines.append(f"{'':<20}{finding.advice}")
    return "\n".join(lines)
