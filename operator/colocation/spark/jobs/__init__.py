"""Programs that the Spark image runs: ``local:///opt/colocation/jobs/{load,sql}.py``.

Each ends with one line ``COLOCATION_RESULT <json>`` on standard output, for the caller that waits for the application.
"""
