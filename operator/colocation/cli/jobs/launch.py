"""Prepares, creates and follows a Spark application for ``submit``, ``load`` and ``sql``; the command ``submit``."""

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click
import yaml
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from ...model.base import Frozen
from ...model.names import config_map_of, group_key
from ...model.wording import counted
from ...submit import Decision, GroupView, ManifestError, PreparedApplication, group_label, prepare
from ...submit.clients import Applications, DirectApplications, KubernetesApplications
from ...submit.direct import DirectSubmission, direct_submission, driver_job
from ...submit.driver_error import advice_on, find_error
from ...submit.prepare import Overrides, override
from ...submit.run import RESULT_MARK, Outcome, Progress, Stuck, create, outcome, watch
from ..cluster import Cluster
from ..errors import CommandFailed, said_by
from ..terminal.live import bar, moving_line, warn
from ..terminal.options import Target, bundle, cluster_options, output_option, read_manifest, timeout_option
from ..terminal.output import Format, size, tell, write
from .job_options import override_options

HINT_AFTER_SECONDS = 30.0
MAX_ERROR_CHARACTERS = 300


def follow(steps: Iterable[Progress]) -> Progress | None:
    """Consume the steps and show them. Returns the last one; None when there was none."""
    rate, last = Rate(), None
    with moving_line() as say:
        for step in steps:
            say(describe(step), f"{amounts(step, rate)} ({step.elapsed_seconds:.0f} s)")
            last = step
    return last


class Rate:
    """Bytes a second since the first of them were seen."""

    def __init__(self) -> None:
        self._first: tuple[str, int, float] | None = None

    def of(self, phase: str, count: int, now_seconds: float) -> float | None:
        """``count`` bytes so far in a phase; None while there is nothing to compare with."""
        if self._first is None or self._first[0] != phase:
            self._first = (phase, count, now_seconds)
        _, before, since = self._first
        return (count - before) / (now_seconds - since) if now_seconds > since and count > before else None


def describe(step: Progress) -> str:
    """An application's state for people."""
    if not step.state:
        hint = ""
        if step.elapsed_seconds > HINT_AFTER_SECONDS:
            hint = "; does it run, and watch this namespace?"
        return f"{step.name}: waiting for {step.runner}{hint}"
    executors = ""
    if step.state.lower().startswith("running"):
        wanted, running = step.executors_wanted, step.executors_running
        of_them = counted(running, "executor") if wanted is None else f"{running} of {counted(wanted, 'executor')}"
        executors = f", {of_them}"
    write = f", {step.write.phase} {bar(step.write.share)}" if step.write else ""
    return f"{step.name}: {step.state}{executors}{write}{_trouble(step)}"


def _trouble(step: Progress) -> str:
    """Why an attempt failed, after which another one may follow; of spark-submit's whole output the exception."""
    error = " ".join((find_error(step.error) or step.error).split())
    return f": {error[:MAX_ERROR_CHARACTERS]}" if error else ""


def amounts(step: Progress, rate: Rate) -> str:
    """The text next to a write's bar: tasks or rows, bytes and their rate."""
    write = step.write
    if write is None:
        return ""
    speed = rate.of(write.phase, write.bytes, step.elapsed_seconds)
    per_second = f", {size(speed)}/s" if speed else ""
    if write.phase == "reading":
        return f" {write.tasks_done} of {write.tasks} tasks, {size(write.bytes)} read{per_second}"
    return f" {write.rows_done:,} of {write.rows:,} rows, {size(write.bytes)} written{per_second}"


GENERATED_BYTES = 3
"""A generated name ends in six hexadecimal digits."""


class RunOptions(Frozen):
    """How far to go, for how long, and how to report."""

    dry_run: bool = False
    wait: bool = True
    timeout_seconds: float | None = None
    replace: bool = False
    direct: bool = False


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


@dataclass(frozen=True)
class Started:
    """An application that was created; ``applications`` is None when it was only printed.

    ``is_not_awaited``: it runs at its own times, or until it is deleted.
    """

    decision: Decision
    namespace: str
    applications: Applications | None = None
    name: str = ""
    is_not_awaited: bool = False

    def watch_advice(self) -> str:
        """The command that follows it, and the one that tells why it waits: the former shows no reason."""
        reference = self.applications.reference(self.name) if self.applications else self.name
        why = f"kubectl get events -n {self.namespace} --field-selector type=Warning"
        return f"watch it: kubectl get {reference} -n {self.namespace} --watch; if it does not start: {why}"


def _run_options(no_wait: bool, **options: Any) -> RunOptions:
    return RunOptions(wait=not no_wait, **options)


run_options = bundle(
    "options",
    _run_options,
    click.option("--dry-run", is_flag=True, help="Print the prepared manifest; create nothing."),
    click.option("--no-wait", is_flag=True, help="Create the application and return at once."),
    timeout_option,
    click.option("--replace", is_flag=True, help="Delete a finished application of the same name first."),
    click.option("--direct", is_flag=True, help="Run without a Spark operator: a Job runs the driver."),
)
"""How to run an application, as one ``options: RunOptions``."""


def group_view(cluster: Cluster, reference: str) -> GroupView:
    """The group and its ConfigMap. ``reference``: ``sales``, or ``accounts/sales`` of that namespace.

    Raises:
        CommandFailed: there is no such group (the message lists those that there are), or the operator has not made
            the group's ConfigMap, without which Spark's pods would wait without end.
    """
    key = group_key(cluster.namespace, reference)
    group, config_map = cluster.group_of(key), cluster.spark_config_map(key)
    if config_map is None:
        raise CommandFailed(
            f"there is no ConfigMap {config_map_of(cluster.namespace, key)!r} in namespace {cluster.namespace!r}; the "
            "operator makes it in the namespace of each group, and in each namespace with tables of that group. Check "
            "that the operator runs: colocation doctor"
        )
    return GroupView.from_objects(group, config_map, cluster.namespace, cluster.freshness(config_map))


def start(
    cluster: Cluster, application: Mapping[str, Any], group: GroupView, options: RunOptions, *, announce: bool
) -> Started:
    """Prepare and create an application, or print it. ``announce``: print the decision as soon as it is taken.

    Raises:
        ManifestError: the application cannot be prepared.
        RunError: it cannot be created.
    """
    named = _with_name(application) if options.direct else application
    prepared = prepare(named, group)
    for warning in prepared.warnings:
        tell(f"Warning: {warning}", err=True)
    if options.dry_run:
        print_object(prepared, options.direct)
        return Started(prepared.decision, group.namespace)
    applications = _applications(cluster, prepared, options.direct)
    if announce:
        tell(str(prepared.decision))
    name = _created(applications, prepared.application, options)
    is_not_awaited = prepared.kind.flavour in ("scheduled", "connect")
    return Started(prepared.decision, group.namespace, applications, name, is_not_awaited)


def _created(applications: Applications, application: Mapping[str, Any], options: RunOptions) -> str:
    """The name of the application, which is there from now on."""
    try:
        return create(applications, application, replace=options.replace, sleep=time.sleep)
    except KeyboardInterrupt:
        reference = applications.reference(application["metadata"].get("name") or "").rstrip()
        namespace = application["metadata"]["namespace"]
        raise CommandFailed(
            f"interrupted; if the {applications.what} was created, it goes on: kubectl get {reference} -n {namespace}; "
            f"end it: kubectl delete {reference} -n {namespace}"
        ) from None


def run(
    cluster: Cluster, application: Mapping[str, Any], group: GroupView, options: RunOptions, *, announce: bool,
    tells_progress: bool = False,
) -> Run:  # fmt: skip
    """Prepare, create and await an application.

    Args:
        announce: print the decision as soon as it is taken.
        tells_progress: the driver prints how far its write is (``WriteProgress``).

    Raises:
        ManifestError: the application cannot be prepared.
        RunError: it cannot be created or awaited.
        CommandFailed: it failed.
    """
    started = start(cluster, application, group, options, announce=announce)
    if started.applications is None:
        return Run(decision=started.decision)
    what, advice = started.applications.what, started.watch_advice()
    if not options.wait or started.is_not_awaited:
        tell(f"{what.lower()} {started.name} created in {started.namespace}; {advice}", err=True)
        return Run(decision=started.decision)
    ended = _await_end(started, started.applications, options, tells_progress)
    if not ended.succeeded:
        report_failure(ended)
    return Run(decision=started.decision, outcome=ended)


def _with_name(application: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with a name, since without a Spark operator only this command can generate one."""
    metadata = dict(application.get("metadata") or {})
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = metadata["generateName"] + secrets.token_hex(GENERATED_BYTES)
    return {**application, "metadata": metadata}


def _applications(cluster: Cluster, prepared: PreparedApplication, direct: bool) -> Applications:
    if not direct:
        return KubernetesApplications(cluster.connection, prepared.kind)
    return DirectApplications(cluster.connection, _submission(prepared))


def _submission(prepared: PreparedApplication) -> DirectSubmission:
    return direct_submission(prepared, prepared.application["metadata"]["name"])


def _await_end(started: Started, applications: Applications, options: RunOptions, tells_progress: bool) -> Outcome:
    name, namespace = started.name, started.namespace
    try:
        last = follow(watch(
            applications, namespace, name, timeout_seconds=options.timeout_seconds, clock=time.monotonic,
            sleep=time.sleep, tells_progress=tells_progress,
        ))  # fmt: skip
    except KeyboardInterrupt:
        raise CommandFailed(
            f"interrupted; {applications.what} {name} goes on: {started.watch_advice()}; "
            f"end it: kubectl delete {applications.reference(name)} -n {namespace}"
        ) from None
    except Stuck as error:
        raise CommandFailed(f"{error}{_ended(applications, namespace, name)}") from error
    assert last is not None and last.end is not None  # else it would still be watched
    return outcome(applications, namespace, name, last.end, sleep=time.sleep)


def _ended(applications: Applications, namespace: str, name: str) -> str:
    """Delete an application that cannot run, lest it run after the command is repeated; returns what became of it."""
    try:
        applications.delete(namespace, name)
    except (ApiException, HTTPError, CommandFailed) as error:
        return (
            f". It still waits ({said_by(error)}): before you repeat the command, end it: "
            f"kubectl delete {applications.reference(name)} -n {namespace}"
        )
    return ". It is deleted"


def print_result(result: Mapping[str, object] | None) -> None:
    """The driver's result as the one marked line that programs look for."""
    if result is not None:
        click.echo(f"{RESULT_MARK}{json.dumps(result)}")


def missing_result(ended: Outcome) -> str:
    """A message: the application succeeded, and why its result is not known."""
    why = ended.log_problem or "its driver's log holds none"
    return f"{ended.what} {ended.name} succeeded; its result could not be read: {why}"


def print_object(prepared: PreparedApplication, direct: bool) -> None:
    """What would be created, as YAML on stdout, ready for ``kubectl create -f -``; the decision as its first comment.

    Raises:
        ManifestError: the application cannot run without a Spark operator.
    """
    shown = driver_job(_submission(prepared)) if direct else prepared.application
    tell(f"# {prepared.decision}")
    click.echo(yaml.safe_dump(shown, sort_keys=False), nl=False)


def report_failure(ended: Outcome) -> None:
    """Fail with the driver's own error; if it gives no reason, print the end of its log before.

    Raises:
        CommandFailed: always, with what failed and where to look.
    """
    for line in ended.log_tail:
        tell(f"  {line}", err=True)
    cause = ended.driver_error or ended.error.strip() or "no reason was given"
    where = f"its driver's log: kubectl logs {ended.driver_pod} -n {ended.namespace}"
    if ended.log_problem or not ended.driver_pod:
        problem = ended.log_problem or "its driver left no log"
        where = f"{problem}. More: kubectl describe {ended.reference} -n {ended.namespace}"
    reasons = "; ".join(filter(None, (cause, advice_on(cause, ended.namespace), where)))
    raise CommandFailed(f"{ended.what} {ended.name} is {ended.state}: {reasons}")


@click.command()
@click.option("-f", "--file", required=True, metavar="FILE",
              help="SparkApplication with the label colocation.dev/group; - reads standard input.")  # fmt: skip
@override_options
@run_options
@cluster_options
@output_option
def submit(file: str, overrides: Overrides, options: RunOptions, target: Target, output: Format) -> None:
    """Run a SparkApplication on the nodes of its group.

    FILE holds a SparkApplication of Kubeflow's or Apache's Spark operator, or Kubeflow's ScheduledSparkApplication or
    SparkConnect. The command adds affinity, spreading, the data mount, a token and configuration to it; a manifest that
    contradicts them is refused. It prints whether joins of the group are colocated, waits for the end, and prints the
    driver's result. Schedules and Spark Connect servers are created, not waited for.
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
