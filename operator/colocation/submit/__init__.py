"""SparkApplication in, SparkApplication with the placement of a colocation group out; then create it and wait.

``prepare`` and what it uses are pure. ``clients`` and ``run`` are the thin last step.
"""

from .group_view import Decision, GroupView, decide, group_label
from .manifest import ManifestError
from .prepare import PreparedApplication, prepare

__all__ = ["Decision", "GroupView", "ManifestError", "PreparedApplication", "decide", "group_label", "prepare"]
