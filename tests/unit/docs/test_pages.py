"""Pages match the code: reasons, versions, kinds, programs."""

import ast
import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from colocation.agent import file_requests, front_configuration, http_messages, node_state, quotas
from colocation.agent.settings import OPTIONS
from colocation.model import plan, snapshot
from colocation.model.conditions import Reason
from colocation.model.group import ColocationGroupSpec
from colocation.model.table import ColocatedTableSpec
from devcluster import binaries

from .pages import REPOSITORY, Page, pages, user_pages

SPECS = {"ColocationGroup": ColocationGroupSpec, "ColocatedTable": ColocatedTableSpec}


def page(name: str) -> Page:
    """A page by its path below docs/."""
    return Page(REPOSITORY / "docs" / name)


def test_every_reason_has_a_symptom() -> None:
    """The troubleshooting page lists every reason."""
    assert {reason.value for reason in Reason} <= set(page("how-to/troubleshoot.md").inline_code)


def test_spark_md_lists_the_reasons_of_verdicts() -> None:
    """Each constant of Java's ``Reasons``, which all verdicts begin with, has a row."""
    source = REPOSITORY / "spark_images/coloc-fs/src/main/java/dev/colocation/spark/explain/Reasons.java"
    reasons = re.findall(r'String \w+ = "([^"]+)";', source.read_text())
    assert len(reasons) > 5
    listed = re.findall(r"^\| `([^`:]+)(?:: …)?` \|", page("reference/spark.md").text, re.MULTILINE)
    assert [reason for reason in reasons if reason not in listed] == []


def test_plans_md_has_every_field_of_a_snapshot() -> None:
    """Of the planner's input, and of its output."""
    text = page("reference/plans.md").text
    types = [one for module in (snapshot, plan) for one in vars(module).values() if isinstance(one, type)]
    models = [
        one for one in types if issubclass(one, BaseModel) and one.__module__ in (snapshot.__name__, plan.__name__)
    ]
    fields = [(one.__name__, field.alias or name) for one in models for name, field in one.model_fields.items()]
    assert len(fields) > 60
    assert [(model, field) for model, field in fields if not re.search(rf"\b{field}\b", text)] == []


def test_the_oldest_python_is_the_same_everywhere() -> None:
    """Of commands, operator and agents, which need a newer one than drivers do."""
    oldest = re.search(r"the agents need (3\.\d+)", (REPOSITORY / "pyproject.toml").read_text())
    assert oldest
    own, drivers = oldest[1], "3.10"
    for name in ("operator/colocation/cli/__init__.py", "scripts/setup", "packaging/krew/kubectl-colocation"):
        assert f"< ({own.replace('.', ', ')})" in (REPOSITORY / name).read_text(), name
    assert f"--python-version {own} " in (REPOSITORY / "scripts/lock").read_text()
    assert f"BASE=python:{own}-" in (REPOSITORY / "Dockerfile").read_text()
    assert f'requires-python = ">={drivers}"' in (REPOSITORY / "pyproject.toml").read_text()
    named = {(one.name, given) for one in pages() for given in re.findall(r"Python (3\.\d+) or newer", one.text)}
    assert {given for _, given in named} == {own, drivers}, named


def test_the_versions_page_names_what_is_tested() -> None:
    """Spark's by the locks, Kubernetes', Helm's and Kubeflow's by the dev cluster's pins."""
    text = page("reference/versions.md").text
    sparks = [path.stem.removeprefix("pyspark-") for path in REPOSITORY.glob("locks/pyspark-*.txt")]
    programs = [*binaries.KUBERNETES_VERSIONS.values(), binaries.HELM.version, binaries.SPARK_OPERATOR.version]
    tested = [*sparks, *(version.removeprefix("v") for version in programs)]
    assert [version for version in tested if version not in text] == []


@pytest.mark.parametrize("one", user_pages(), ids=lambda one: one.name)
def test_supported_versions_are_the_same_everywhere(one: Page) -> None:
    """From the oldest to the newest Spark that has locks; from the oldest Kubernetes that has pins."""
    if one.name == "CHANGELOG.md":
        return  # what earlier releases supported
    sparks = sorted(path.stem.removeprefix("pyspark-") for path in REPOSITORY.glob("locks/pyspark-*.txt"))
    oldest, newest = (version.rpartition(".")[0] for version in (sparks[0], sparks[-1]))
    assert set(re.findall(r"Spark:? (\d\.\d+ to \d\.\d+)", one.text)) <= {f"{oldest} to {newest}"}
    kubernetes = re.findall(r"(?:Kubernetes|Kubernetes cluster.*?, version) (\d\.\d+) or newer", one.text)
    assert set(kubernetes) <= {next(iter(binaries.KUBERNETES_VERSIONS))}


def test_the_agent_api_lists_every_flag() -> None:
    """Each flag is an option of the agent's settings."""
    named = {word for code in page("reference/agent-api.md").inline_code for word in code.split()}
    assert [option.name for option in OPTIONS if f"--{option.name}" not in named] == []


def test_the_agent_api_has_the_agents_bounds() -> None:
    """The numbers of the table "Bounds" are the code's."""
    bounds = page("reference/agent-api.md").text.partition("## Bounds")[2].partition("## Errors")[0]
    upload_wait = {node_state.UPLOAD_WAIT_SECONDS, node_state.BATCH_WAIT_SECONDS}
    sentences = [
        f"within {front_configuration.HEADER_SECONDS} s; request line and each header 32 KiB",
        f"| silence | {front_configuration.SEND_SECONDS} s",
        f"{quotas.MAX_READS_OF_ACCOUNT} per account",
        f"{node_state.MAX_UPLOADS_OF_ACCOUNT} and {node_state.MAX_BATCHES_OF_ACCOUNT} per account; "
        f"{node_state.MAX_UPLOADS_TO_NAMESPACE} uploads to one namespace; more wait up to {min(upload_wait):.0f} s",
        f"{file_requests.UPLOAD_IDLE_SECONDS:.0f} s without a byte; {file_requests.MIN_BYTES_PER_SECOND >> 10} KiB/s",
        f"{http_messages.MAX_BODY_BYTES >> 20} MiB; inventory {front_configuration.MAX_BODY_BYTES >> 20} MiB",
        f"{front_configuration.MAX_PROBES_PER_SECOND} a second per client address",
    ]
    assert [sentence for sentence in sentences if sentence not in bounds] == []
    assert len(upload_wait) == 1


def test_the_oldest_kubernetes_is_tested() -> None:
    """The oldest one that has pins is the oldest one that the chart takes."""
    chart = yaml.safe_load((REPOSITORY / "charts/colocation-operator/Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={next(iter(binaries.KUBERNETES_VERSIONS))}.0-0"


def test_the_supported_kubernetes_is_the_charts() -> None:
    """The chart refuses older ones."""
    chart = yaml.safe_load((REPOSITORY / "charts/colocation-operator/Chart.yaml").read_text())
    oldest = re.match(r">=(\d+\.\d+)", chart["kubeVersion"])
    assert oldest and f"| Kubernetes | {oldest[1]} and newer" in page("reference/versions.md").text


@pytest.mark.parametrize("one", pages(), ids=lambda one: one.name)
def test_tables_have_a_head(one: Page) -> None:
    """Rows that an empty line parts from their table's head are shown as text with bars."""
    tables = [rows.splitlines() for rows in re.findall(r"(?:^\|.*\n)+", f"{one.prose}\n", re.MULTILINE)]
    assert [rows[0] for rows in tables if not re.fullmatch(r"\|(?:-+\|)+", "".join(rows[1:2]))] == []


@pytest.mark.parametrize("one", pages(), ids=lambda one: one.name)
def test_manifests_are_valid(one: Page) -> None:
    """YAML parses, and our kinds are what the model takes."""
    for block in one.blocks({"yaml"}):
        for document in yaml.safe_load_all(block):
            if isinstance(document, dict) and document.get("kind") in SPECS and "spec" in document:
                SPECS[document["kind"]].model_validate(document["spec"])


@pytest.mark.parametrize("one", pages(), ids=lambda one: one.name)
def test_programs_parse(one: Page) -> None:
    """Python; an ellipsis stands for what is left out."""
    for block in one.blocks({"python"}):
        ast.parse(block.replace("…", "..."))


@pytest.mark.parametrize("one", pages(), ids=lambda one: one.name)
def test_lists_hold_their_paragraphs(one: Page) -> None:
    """The site's Markdown wants four spaces for what belongs to a list's item; with fewer the numbers begin again."""
    assert re.findall(r"(?<=\n\n) {1,3}\S.*", one.prose) == []


@pytest.mark.parametrize("lock", sorted(REPOSITORY.glob("locks/s3-jars-*.txt")), ids=lambda lock: lock.stem)
def test_the_image_has_the_credential_providers_that_the_page_names(lock: Path) -> None:
    """Workload identity takes AWS' auth for the provider, and sts, which the provider looks up, for the exchange."""
    assert "WebIdentityTokenFileCredentialsProvider" in page("how-to/load-tables.md").text
    jars = {re.sub(r"-[\d.]+\.jar$", "", line.split()[-1]) for line in lock.read_text().splitlines()}
    assert {"hadoop-aws", "auth", "sts"} <= jars
