"""Hive-style partition folders, escaped as Spark reads them (``ExternalCatalogUtils.escapePathName``)."""

from colocation.model.table_manifest import HIVE_NULL

_CONTROL_CHARACTERS = [chr(code) for code in range(0x01, 0x20)]
_ESCAPED = frozenset([*_CONTROL_CHARACTERS, *"\"#%'*/:=?\\\x7f{[]^"])


def partition_folder(values: dict[str, str | None]) -> str:
    """``a=1/b=__HIVE_DEFAULT_PARTITION__`` for {"a": "1", "b": None}; empty without partition columns."""
    return "/".join(f"{escape(name)}={HIVE_NULL if value is None else escape(value)}" for name, value in values.items())


def escape(text: str) -> str:
    """Percent-escapes what a folder's name must not hold."""
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in text)
