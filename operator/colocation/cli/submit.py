"""``submit``: an ordinary SparkApplication, run where its group's buckets lie."""

from typing import Any

import click

from ..submit import ManifestError, group_label
from ..submit.overrides import Overrides, override
from .applications import RunOptions, group_view, print_result, run, run_options
from .job_options import override_options
from .manifest_files import read_manifest
from .options import Target, cluster_options, output_option
from .output import Format, write


@click.command()
@click.option("-f", "--file", required=True, help="The SparkApplication, labelled colocation.dev/group; - reads stdin.")
@override_options
@run_options
@cluster_options
@output_option
def submit(file: str, overrides: Overrides, options: RunOptions, target: Target, output: Format) -> None:
    """Run a SparkApplication where its group's buckets lie, and say whether its joins are colocated.

    FILE holds a SparkApplication of Kubeflow's operator or of Apache's, or Kubeflow's ScheduledSparkApplication.
    Affinity, spreading, the data mount, token and configuration are added to what the manifest says; a contradiction is
    refused. Waits for the end and prints the driver's result (a schedule is created, and not waited for).
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
        click.echo(f"{finished.outcome.what.lower()} {finished.outcome.name}: {finished.outcome.state}")
        print_result(finished.outcome.result)


def choose_namespace(application: dict[str, Any], given: str | None) -> str | None:
    """The manifest's namespace or the option's; they may not differ.

    Raises:
        ManifestError: they do.
    """
    stated = (application.get("metadata") or {}).get("namespace")
    if stated and given and stated != given:
        raise ManifestError(f"metadata.namespace is {stated!r}, --namespace is {given!r}: say it once")
    return stated or given
