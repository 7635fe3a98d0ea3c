"""``submit``: an ordinary SparkApplication, run where its group's buckets lie."""

from typing import Any

import click

from ...submit import ManifestError, group_label
from ...submit.overrides import Overrides, override
from ..terminal.input_files import read_manifest
from ..terminal.options import Target, cluster_options, output_option
from ..terminal.output import Format, tell, write
from ..terminal.watching import warn
from .applications import RunOptions, group_view, missing_result, print_result, run, run_options
from .job_options import override_options


@click.command()
@click.option("-f", "--file", required=True, metavar="FILE",
              help="SparkApplication with the label colocation.dev/group; - reads standard input.")  # fmt: skip
@override_options
@run_options
@cluster_options
@output_option
def submit(file: str, overrides: Overrides, options: RunOptions, target: Target, output: Format) -> None:
    """Run a SparkApplication on the nodes of its group.

    FILE holds a SparkApplication of Kubeflow's or Apache's Spark operator, or Kubeflow's ScheduledSparkApplication. The
    command adds affinity, spreading, the data mount, a token and configuration to it; a manifest that contradicts them
    is refused. It prints whether joins of the group are colocated, waits for the end, and prints the driver's result. A
    schedule is created, not waited for.
    """
    application = read_manifest(file)
    override(application, overrides)
    group_name = group_label(application)
    cluster = Target(target.context, choose_namespace(application, target.namespace)).open()
    finished = run(cluster, application, group_view(cluster, group_name), options, announce=output == "text")
    if options.dry_run:
        return
    if output != "text":
        write(finished.to_report(), "", output)
    elif finished.outcome:
        tell(f"{finished.outcome.what.lower()} {finished.outcome.name}: {finished.outcome.state}")
        print_result(finished.outcome.result)
    ended = finished.outcome
    if ended and ended.result is None and ended.log_problem:
        warn([missing_result(ended)])


def choose_namespace(application: dict[str, Any], given: str | None) -> str | None:
    """The manifest's namespace or the option's; they may not differ.

    Raises:
        ManifestError: they do.
    """
    stated = (application.get("metadata") or {}).get("namespace")
    if stated and given and stated != given:
        raise ManifestError(f"metadata.namespace is {stated!r}, but --namespace is {given!r}: leave one of them out")
    return stated or given
