"""The command ``colocation``, also ``kubectl colocation``: thin commands over the API server and the pure packages."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036
    # pip installs the package there, for drivers.
    given = sys.version.split()[0]
    sys.exit(f"this is Python {given}; the command needs 3.11 or newer, only Spark drivers run on 3.10")
