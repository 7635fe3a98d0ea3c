"""Every command that a page shows can be typed: commands, options, targets and chart values exist."""

import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import click
import pytest
import yaml
from jsonschema import Draft202012Validator

from colocation.cli.main import main as colocation

from .pages import PLACEHOLDER, REPOSITORY, SHELL, Page, commands_in, pages

CHART = REPOSITORY / "charts" / "colocation-operator"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = Draft202012Validator(yaml.safe_load((CHART / "values.schema.json").read_text()))
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
KUBECTL = {
    "annotate", "api-resources", "apply", "auth", "certificate", "colocation", "config", "cordon", "create", "debug",
    "delete", "describe", "diff", "drain", "edit", "events", "exec", "explain", "get", "label", "logs", "patch",
    "port-forward", "replace", "rollout", "run", "scale", "taint", "top", "uncordon", "version", "wait",
}  # fmt: skip
HELM = {
    "get", "history", "install", "lint", "list", "package", "pull", "push", "registry", "repo", "rollback", "show",
    "status", "template", "test", "uninstall", "upgrade",
}  # fmt: skip
SET_OPTIONS = ("--set", "--set-string", "--set-file")
VALUE = re.compile(r"^(?:agent|operator|webhooks|networkPolicies|admissionPolicy|adminApi)(?:\.(?!json|yaml)\w+)+$")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_can_be_typed(page: Page) -> None:
    """In shell blocks, all of it."""
    wrong = [f"{' '.join(words)}: {problem}" for words in page.commands if (problem := problem_of(words))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_that_prose_mentions_exist(page: Page) -> None:
    """Arguments may be left out there."""
    wrong = [f"{code}: {problem}" for code in page.inline_code if (problem := problem_of_mention(code))]
    assert not wrong, "\n".join(wrong)


def problem_of_mention(code: str) -> str | None:
    """What is wrong with code in back quotes; None also when it is no command."""
    if VALUE.match(code) and not is_value(code.split(".")):
        return "no such value of the chart"
    if not re.match(r"(?:colocation|kubectl colocation|make|helm) [a-z]", code):
        return None
    for words in commands_in(code):
        problem = problem_of(words)
        if problem and not problem.startswith("Missing"):
            return problem
    return None


def is_value(path: list[str]) -> bool:
    """Whether values.yaml has it; below a mapping that is free to fill anything goes."""
    place: Any = VALUES
    for key in path:
        if not isinstance(place, dict) or key not in place:
            return False
        place = place[key]
    return True


def problem_of(words: list[str]) -> str | None:
    """What is wrong with a command; None = nothing, or not ours to say."""
    while words and re.match(r"^\w+=", words[0]):
        words = words[1:]
    match words:
        case ["colocation", *rest] | ["kubectl", "colocation", *rest]:
            return problem_of_colocation(rest)
        case ["kubectl", *rest]:
            return first_word_is_known(rest, KUBECTL, {"--namespace", "-n"})
        case ["make", *rest]:
            unknown = [word for word in rest if not word.startswith("-") and "=" not in word and word not in TARGETS]
            return f"no target {unknown[0]}" if unknown else None
        case ["helm", *rest]:
            return first_word_is_known(rest, HELM, set()) or problem_of_values(list(values_set(rest)))
    return None


def first_word_is_known(words: list[str], known: set[str], options_with_value: set[str]) -> str | None:
    """The subcommand is the first word that is no option."""
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in options_with_value else words[1:]
    return None if words and words[0] in known else f"no subcommand {words[:1]}, known are {sorted(known)}"


def problem_of_colocation(arguments: list[str]) -> str | None:
    """Click parses it; nothing is run. NAMESPACE in capitals stands for a name."""
    redirection = next((place for place, word in enumerate(arguments) if word in ("<", ">", ">>")), len(arguments))
    arguments = ["name" if word == "NAMESPACE" else word for word in arguments[:redirection] if word != "…"]
    if not arguments or arguments[0].startswith("-"):
        return None
    context = click.Context(colocation)
    command = colocation.get_command(context, arguments[0])
    if command is None:
        return f"no command {arguments[0]}"
    try:
        command.make_context(arguments[0], arguments[1:], parent=context)
    except click.exceptions.Exit:
        return None
    except click.UsageError as error:
        return error.format_message()
    return None


def values_set(words: list[str]) -> Iterator[tuple[list[str], Any]]:
    """The path and the value of each --set of a helm command."""
    for option, setting in pairwise(words):
        if option in SET_OPTIONS:
            path, _, value = setting.partition("=")
            yield re.split(r"(?<!\\)\.", path), typed(value, is_text=option != "--set")


def typed(value: str, *, is_text: bool) -> Any:
    """A value as helm reads it; {a,b} is a list."""
    if value.startswith("{"):
        return value.strip("{}").split(",")
    return value if is_text else yaml.safe_load(value or '""')


def problem_of_values(settings: list[tuple[list[str], Any]]) -> str | None:
    """The chart's schema judges them, as helm would."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    for path, value in settings:
        place = values
        for key in path[:-1]:
            place = place.setdefault(key.replace("\\.", "."), {})
        place[path[-1].replace("\\.", ".")] = value
    return next((f"{error.json_path}: {error.message}" for error in SCHEMA.iter_errors(values)), None)


@pytest.mark.parametrize(("command", "problem"), [
    pytest.param("colocation plan sales -n shop", None, id="a command"),
    pytest.param("colocation plans sales", "no command plans", id="no such command"),
    pytest.param("colocation drain node-1 --wat", "No such option '--wat'.", id="no such option"),
    pytest.param("colocation drain", "Missing argument 'NODE'.", id="no argument"),
    pytest.param("SF=0.1 make demo", None, id="a target"),
    pytest.param("make domo", "no target domo", id="no such target"),
    pytest.param("kubectl colocation nodes", None, id="as kubectl's plugin"),
    pytest.param("helm upgrade x y --set agent.hostPort=null", None, id="a value"),
    pytest.param("helm upgrade x y --set agent.hostPrt=1", "$.agent: Additional properties are not allowed "
                 "('hostPrt' was unexpected)", id="no such value"),
])  # fmt: skip
def test_what_is_wrong_is_found(command: str, problem: str | None) -> None:
    """Commands that would fail when typed are found."""
    found = problem_of(next(iter(commands_in(command))))
    assert (found or "").split(" (Possible")[0].split(" Did you")[0] == (problem or "")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_shell_blocks_can_be_pasted(page: Page) -> None:
    """A placeholder in angle brackets is a redirection: write ``NAME``, or a variable that the page sets."""
    blocks = page.blocks(SHELL)
    assert [found for block in blocks for found in PLACEHOLDER.findall(block)] == []
    for block in blocks:
        parsed = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert parsed.returncode == 0, f"{parsed.stderr}\n{block}"
