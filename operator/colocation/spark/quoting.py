"""Names in SQL text."""


def quote(name: str) -> str:
    """A name as Spark SQL takes it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def qualified(*parts: str) -> str:
    """A name of several parts, e.g. catalog, namespace and table."""
    return ".".join(map(quote, parts))


def literal(text: str) -> str:
    """A text as Spark SQL takes it whatever is in it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
