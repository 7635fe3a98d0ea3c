"""A statement that names tables of further namespaces: theirs are registered when Spark misses one of them."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException

Answer = TypeVar("Answer")

NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_TWO_PARTS = re.compile(r"`(?P<namespace>[a-z0-9_]+)`\.`[^`]+`")


def with_named_namespaces(answer: Callable[[], Answer], register: Callable[[str], object]) -> Answer:
    """``answer()``, tried again after each namespace whose table it missed was registered, once each.

    Only Spark knows which words of a statement are tables; it names the first that it does not find.

    Raises:
        AnalysisException: a table that does not exist, also not in the namespace that it names.
        NotAllowed: the tables of a namespace may not be listed.
    """
    from pyspark.errors import AnalysisException

    tried: set[str] = set()
    while True:
        try:
            return answer()
        except AnalysisException as error:
            namespace = missing_namespace(error)
            if namespace is None or namespace in tried:
                raise
        tried.add(namespace)
        register(namespace)


def missing_namespace(error: "AnalysisException") -> str | None:
    """The namespace of the table that Spark did not find; None when the error is another or names no namespace.

    Namespaces hold no ``_``, so ``my_shop`` can only be ``my-shop``.
    """
    if error.getCondition() != NOT_FOUND:
        return None
    match = _TWO_PARTS.fullmatch((error.getMessageParameters() or {}).get("relationName", ""))
    return match["namespace"].replace("_", "-") if match else None
