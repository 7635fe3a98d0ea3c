"""SparkApplication in, SparkApplication with the placement of a colocation group out; then create it and wait.

``prepare`` and what it uses are pure. ``applications``, ``direct_client`` and ``run`` are the thin last step.
"""

from .decision import Decision, decide
from .errors import ManifestError
from .group_view import GroupView, group_label
from .prepare import PreparedApplication, prepare

__all__ = ["Decision", "GroupView", "ManifestError", "PreparedApplication", "decide", "group_label", "prepare"]
