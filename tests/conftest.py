"""For all tests: who runs which of them when several run at once, hypothesis, logs.

``scripts/test-unit`` runs three at once: a file's tests stay together, since they share what the file made; a simulated
story stands alone; and two workers, which start a Spark cluster each, take Spark's files one after the other, so that
neither has much left when the other ends. What waits most (API servers, operators) and what costs most (Spark) comes
first, what is short fills the gaps at the end.
"""

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is not a failure: what takes too long is ended by pytest's own time-out.
settings.register_profile("colocation", deadline=None)
settings.load_profile("colocation")

HERE = Path(__file__).parent
SPARK_CLUSTERS = 2
"""At once, on two cores: so many workers run Spark's files until none is left."""
SERVERS = dict.fromkeys(("test_concurrent_sessions.py", "test_pipelines.py"), "test_catalog_clients.py")
"""Files that stay with another, whose Thrift and Connect servers they use, too."""
FIRST = ("spark", "integration", "faults", "property", "unit")
"""Folders in the order of their turns; others come after them."""


TEMPORARY = "colocation-tests-"
"""Begins the name of each test process's temporary folder; its process id ends it."""


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this process's children, many of which are killed, leave their files; it goes with the run.

    What killed runs have left goes, too.
    """
    tmp_path_factory.getbasetemp()  # pytest keeps its own elsewhere, for those who look at a failure
    parent = Path(tempfile.gettempdir())
    remove_folders_of_ended_processes(parent)
    folder = parent / f"{TEMPORARY}{os.getpid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


def remove_folders_of_ended_processes(parent: Path) -> None:
    """Remove the temporary folders of test processes that were killed."""
    for left in parent.glob(f"{TEMPORARY}*"):
        if not Path("/proc", left.name.removeprefix(TEMPORARY)).exists():
            shutil.rmtree(left, ignore_errors=True)  # another worker may be removing it, too


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests by folder, as collected within it."""
    items.sort(key=_turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep together what ``stays_with`` gives the same word, and Spark's files where the clusters are."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return stays_with(nodeid)

        def _next(self, node: object) -> str | None:
            clusters = [any(map(needs_cluster, words)) for words in self.assigned_work.values()]
            has_cluster = any(map(needs_cluster, self.assigned_work[node]))
            return next_of(list(self.workqueue), has_cluster, sum(clusters))

        def _assign_work_unit(self, node: object) -> None:
            if (chosen := self._next(node)) is not None:
                self.workqueue.move_to_end(chosen, last=False)
            super()._assign_work_unit(node)

        def _reschedule(self, node: object) -> None:
            if self.workqueue and self._next(node) is None:
                node.shutdown()  # it ends what it has; others do the rest
            else:
                super()._reschedule(node)

    return Scheduling(config, log)


def stays_with(nodeid: str) -> str:
    """A word for all tests that one worker runs, in their order: the file, files with the same servers, or the test."""
    path = nodeid.split("::")[0]
    if Path(path).parts[1] == "simulation":
        return nodeid
    return str(Path(path).with_name(SERVERS.get(Path(path).name, Path(path).name)))


def needs_cluster(word: str) -> bool:
    """Whether these tests use the Spark cluster of their worker."""
    return Path(word).parts[1] == "spark"


def next_of(waiting: Sequence[str], has_cluster: bool, clusters: int) -> str | None:
    """What a worker does next: Spark's files first if it has a cluster or may start one, else anything but these."""
    if has_cluster or clusters < SPARK_CLUSTERS:
        return next(filter(needs_cluster, waiting), next(iter(waiting), None))
    return next((word for word in waiting if not needs_cluster(word)), None)


def _turn(item: pytest.Item) -> int:
    folder = item.path.relative_to(HERE).parts[0]
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Give pytest's handlers their format again: PySpark's loggers, to which pytest adds them, give them JSON."""
    logging_plugin = item.config.pluginmanager.get_plugin("logging-plugin")
    assert logging_plugin is not None
    for handler in (logging_plugin.caplog_handler, logging_plugin.report_handler):
        handler.setFormatter(logging_plugin.formatter)
    yield
