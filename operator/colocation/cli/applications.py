"""What ``submit``, ``load`` and ``sql`` have in common: prepare for a group, create, wait, report."""

import json
import time
from collections.abc import Mapping
from typing import Any

import click
import yaml

from ..model.base import Frozen
from ..model.names import spark_config_map_name
from ..submit import Decision, GroupView, PreparedApplication, prepare
from ..submit.applications import Applications, KubernetesApplications
from ..submit.run import RESULT_MARK, Outcome, create, outcome, watch
from .cluster import Cluster
from .errors import CommandFailed
from .options import bundle
from .progress import follow


class RunOptions(Frozen):
    """How far to go, for how long, and how to report."""

    dry_run: bool = False
    wait: bool = True
    timeout_seconds: float | None = None
    replace: bool = False


class Run(Frozen):
    """A prepared application and how it ended; ``outcome`` is None when it was only printed, or not waited for."""

    decision: Decision
    outcome: Outcome | None = None

    def to_report(self) -> dict[str, object]:
        """For ``-o json``: the decision, how the application ended, and the driver's result."""
        report: dict[str, object] = {"decision": self.decision.to_json_dict()}
        if self.outcome:
            report |= {"application": self.outcome.name, "state": self.outcome.state, "result": self.outcome.result}
        return report


def _run_options(dry_run: bool, no_wait: bool, timeout_seconds: float | None, replace: bool) -> RunOptions:
    return RunOptions(dry_run=dry_run, wait=not no_wait, timeout_seconds=timeout_seconds, replace=replace)


run_options = bundle(
    "options",
    _run_options,
    click.option("--dry-run", is_flag=True, help="Print the prepared manifest, create nothing."),
    click.option("--no-wait", is_flag=True, help="Create the application and return."),
    click.option("--timeout", "timeout_seconds", type=click.FloatRange(min=0), help="Give up waiting after SECONDS."),
    click.option("--replace", is_flag=True, help="Delete a finished application of the same name first."),
)
"""How to run an application, as one ``options: RunOptions``."""


def group_view(cluster: Cluster, name: str) -> GroupView:
    """The group with what the operator says of it.

    Raises:
        CommandFailed: there is no such group (the message lists those that there are), or the operator has not made
            the group's ConfigMap, without which Spark's pods would wait for ever.
    """
    group, config_map = cluster.group(name), cluster.spark_config_map(name)
    if config_map is None:
        raise CommandFailed(
            f"there is no ConfigMap {spark_config_map_name(name)!r} in namespace {cluster.namespace!r}, "
            "which the operator makes beside each group: does the operator run?"
        )
    return GroupView.from_objects(group, config_map)


def run(
    cluster: Cluster, application: Mapping[str, Any], group: GroupView, options: RunOptions, *, announce: bool
) -> Run:
    """Prepare, create and await an application. ``announce``: print the decision as soon as it is taken.

    Raises:
        ManifestError: the application cannot be prepared.
        RunError: it cannot be created or awaited.
        CommandFailed: it failed; the end of its driver's log was printed.
    """
    prepared = prepare(application, group)
    started = Run(decision=prepared.decision)
    if options.dry_run:
        print_manifest(prepared)
        return started
    if announce:
        click.echo(str(prepared.decision))
    applications = KubernetesApplications(cluster.connection)
    name = create(applications, prepared.application, replace=options.replace, sleep=time.sleep)
    if not options.wait:
        advice = watch_advice(group.namespace, name)
        click.echo(f"sparkapplication {name} created in {group.namespace}; {advice}", err=True)
        return started
    ended = _await_end(applications, group.namespace, name, options)
    if not ended.succeeded:
        report_failure(ended)
    return Run(decision=prepared.decision, outcome=ended)


def _await_end(applications: Applications, namespace: str, name: str, options: RunOptions) -> Outcome:
    timeout_seconds = options.timeout_seconds
    try:
        follow(
            watch(
                applications, namespace, name, timeout_seconds=timeout_seconds, clock=time.monotonic, sleep=time.sleep
            )
        )
    except KeyboardInterrupt:
        raise CommandFailed(
            f"interrupted; SparkApplication {name} goes on: {watch_advice(namespace, name)}; "
            f"end it: kubectl delete sparkapplication {name} -n {namespace}"
        ) from None
    return outcome(applications, namespace, name)


def print_result(result: Mapping[str, object] | None) -> None:
    """The driver's result as the one marked line that programs look for."""
    if result is not None:
        click.echo(f"{RESULT_MARK}{json.dumps(result)}")


def print_manifest(prepared: PreparedApplication) -> None:
    """The prepared manifest as YAML on stdout, ready for ``kubectl create -f -``; the decision as its first comment."""
    click.echo(f"# {prepared.decision}")
    click.echo(yaml.safe_dump(prepared.application, sort_keys=False), nl=False)


def watch_advice(namespace: str, name: str) -> str:
    """How to follow an application by hand."""
    return f"watch it: kubectl get sparkapplication {name} -n {namespace} --watch"


def report_failure(ended: Outcome) -> None:
    """Print the end of the driver's log and fail.

    Raises:
        CommandFailed: always; says what failed and where to look.
    """
    for line in ended.log_tail:
        click.echo(f"  {line}", err=True)
    cause = ended.driver_error or ended.error.strip() or "no reason was given"
    where = "the end of its driver's log is above" if ended.log_tail else "its driver left no log"
    raise CommandFailed(
        f"SparkApplication {ended.name} is {ended.state}: {cause}; {where}. More: "
        f"kubectl describe sparkapplication {ended.name} -n {ended.namespace}"
    )
