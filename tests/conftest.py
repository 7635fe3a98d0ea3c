"""For all tests."""

from collections.abc import Generator

import pytest
from hypothesis import settings

# A busy machine is not a failure: what takes too long is ended by pytest's own time-out.
settings.register_profile("colocation", deadline=None)
settings.load_profile("colocation")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Give pytest's handlers their format again: PySpark's loggers, to which pytest adds them, give them JSON."""
    logging_plugin = item.config.pluginmanager.get_plugin("logging-plugin")
    assert logging_plugin is not None
    for handler in (logging_plugin.caplog_handler, logging_plugin.report_handler):
        handler.setFormatter(logging_plugin.formatter)
    yield
