"""Judges mutants by pytest's tests, each mutant in a forked process that changes the code of loaded functions."""

import contextlib
import gc
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from .mutants import Mutant, mutants_of

Line = tuple[str, int]
Tests = list[tuple[float, pytest.Item, frozenset[Line]]]
"""Seconds that a test took, the test, and the lines of the mutants' files that it ran; the quickest first."""
KILLED, SURVIVED, UNCHANGED = 1, 0, 4
"""Exit codes. Unchanged: the code is no function's that is loaded, such as that of a class's body."""
HANGS_SECONDS = 20


class Judge:
    """A pytest plugin that, in the place of running the tests, prints the mutants that survive them.

    Args:
        paths: the files whose functions are changed.
        sample: so many mutants, chosen by ``seed``; 0 = all.
        seconds: for the tests of one mutant, which end at the first failure.
    """

    def __init__(self, paths: Sequence[Path], sample: int, seed: int, seconds: float) -> None:
        self.paths = {str(path.resolve()) for path in paths}
        self.sample, self.seed, self.seconds = sample, seed, seconds
        self.counts = Counter[str]()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Print a line for each mutant that survives, then how many did."""
        tests = self._traced(session.items)
        functions = self._functions()
        found = [one for path in sorted(self.paths) for one in mutants_of(Path(path))]
        if self.sample:
            found = random.Random(self.seed).sample(found, min(self.sample, len(found)))
        for mutant in found:
            verdict = self._judged(mutant, tests, functions)
            self.counts[verdict] += 1
            if verdict not in ("killed", "not loaded"):
                print(f"{os.path.relpath(mutant.path)}:{mutant.lines.start} {verdict}: {mutant.change}", flush=True)
        print(f"{len(found)} mutants: " + ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items()))
        return True

    def _traced(self, items: Sequence[pytest.Item]) -> Tests:
        """Run all tests once, in a process of its own: what they leave in memory must not be seen by the mutants."""
        with tempfile.NamedTemporaryFile() as file:
            _forked(lambda: self._trace(items, file.name), timeout_seconds=0)
            runs = pickle.load(file)
        return sorted(
            ((seconds, item, lines) for item, (seconds, lines) in zip(items, runs, strict=True) if lines),
            key=lambda test: test[0],
        )

    def _trace(self, items: Sequence[pytest.Item], file: str) -> int:
        runs = []
        for place, item in enumerate(items):
            lines: set[Line] = set()
            with self._tracing(lines):
                seconds, passed = run(item, items[place + 1 : place + 2])
            if not passed:
                print(f"{item.nodeid} fails without a mutant, and judges none", file=sys.stderr)
            runs.append((seconds, frozenset(lines if passed else ())))
        Path(file).write_bytes(pickle.dumps(runs))
        return 0

    @contextlib.contextmanager
    def _tracing(self, lines: set[Line]) -> Iterator[None]:
        def of_line(frame: FrameType, event: str, _: Any) -> Any:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return of_line

        def of_call(frame: FrameType, event: str, _: Any) -> Any:
            return of_line if frame.f_code.co_filename in self.paths else None

        threading.settrace(of_call)
        sys.settrace(of_call)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def _functions(self) -> dict[tuple[str, str, int], list[FunctionType]]:
        """The loaded functions by file, name and first line; a decorated one is below its decorator."""
        found: dict[tuple[str, str, int], list[FunctionType]] = {}
        for one in gc.get_objects():
            if isinstance(one, FunctionType) and one.__code__.co_filename in self.paths:
                found.setdefault(_key(one.__code__), []).append(one)
        return found

    def _judged(
        self, mutant: Mutant, tests: Tests, functions: dict[tuple[str, str, int], list[FunctionType]]
    ) -> str:
        lines = {(str(mutant.path), line) for line in mutant.lines}
        chosen: list[pytest.Item] = []
        seconds = 0.0
        for cost, item, ran in tests:
            if lines.isdisjoint(ran):
                continue
            if chosen and seconds + cost > self.seconds:
                break
            chosen.append(item)
            seconds += cost
        if not chosen:
            return "no test runs it"

        def survives() -> int:
            if not _change(mutant, functions):
                return UNCHANGED
            following = [[one] for one in chosen[1:]] + [[]]
            return SURVIVED if all(run(*pair)[1] for pair in zip(chosen, following, strict=True)) else KILLED

        code = _forked(survives, timeout_seconds=HANGS_SECONDS + 5 * int(self.seconds))
        return {SURVIVED: "survived", UNCHANGED: "not loaded"}.get(code, "killed")


def run(item: pytest.Item, following: Sequence[pytest.Item]) -> tuple[float, bool]:
    """Seconds, and whether the test passed. ``following``: the next test, or none; fixtures that it shares stay."""
    item._initrequest()  # type: ignore[attr-defined]  # it may have run before
    started = time.perf_counter()
    reports = runtestprotocol(item, log=False, nextitem=following[0] if following else None)
    return time.perf_counter() - started, not any(report.failed for report in reports)


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _change(mutant: Mutant, functions: dict[tuple[str, str, int], list[FunctionType]]) -> bool:
    """Give the loaded functions the mutant's code; whether any changed."""
    is_changed = False
    for code in _codes(compile(mutant.tree(), str(mutant.path), "exec", dont_inherit=True)):
        for function in functions.get(_key(code), ()):
            if function.__code__ != code and function.__code__.co_freevars == code.co_freevars:
                function.__code__ = code
                is_changed = True
    return is_changed


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _forked(work: Callable[[], int], timeout_seconds: int) -> int:
    """The exit code of work that a process of its own does, silently; whatever it started ends with it."""
    pid = os.fork()
    if pid:
        status = os.waitpid(pid, 0)[1]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(status)
    code = KILLED
    try:
        os.setpgid(0, 0)
        signal.alarm(timeout_seconds)
        silence = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2) if timeout_seconds else (1,):
            os.dup2(silence, stream)
        code = work()
    finally:
        os._exit(code)
