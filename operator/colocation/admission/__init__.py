"""Admission webhooks: what the operator refuses anyway is refused at once, and labelled Spark applications are placed.

Every judgement is the same pure code that the operator's passes and ``colocation submit`` use; here it is only asked
earlier. Both webhooks may be absent or unreachable without harm.
"""

from .known import Known
from .server import admission_application

__all__ = ["Known", "admission_application"]
