"""For all unit tests."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _plain_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    """PySpark's first error with a query context gives its own format to all handlers of the process."""
    caplog.handler.setFormatter(logging.Formatter())
