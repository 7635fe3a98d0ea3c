"""CEL rules of the CRDs: what one object alone can say wrong is refused at admission.

Every message names what was given, what is allowed and what to do. Rules that would exceed the API server's cost budget
(it multiplies the largest sizes of the schema) are left to list types: ``set`` and ``map`` lists refuse duplicates.
"""

from dataclasses import dataclass

from ..model.base import MAX_NAME_LENGTH
from ..model.names import GROUP_KIND, TABLE_KIND
from ..model.spark_types import ALLOWED_TYPES, TYPES_WITHOUT_ARGUMENTS

KEY_TYPE_PATTERN = (
    r"^\s*(boolean|tinyint|byte|smallint|short|int|integer|bigint|long|float|real|double|string|binary|date"
    r"|timestamp|timestamp_ltz|timestamp_ntz"
    r"|(decimal|dec|numeric)(\s*\(\s*\d+\s*(,\s*\d+\s*)?\))?|(varchar|char|character)\s*\(\s*\d+\s*\))\s*$"
)
"""Types that may be bucket keys, in lower case: ``model.spark_types.is_key_type`` as a regular expression (RE2)."""

COLUMN_TYPE_PATTERN = (
    r"^(?i)\s*(\w+(\s+\w+){0,2}|interval\s+\w+\s+to\s+\w+|\w+\s*\(\s*\d+\s*\)|(dec|num)\w*\s*\(\s*\d+\s*,\s*\d+\s*\)"
    r"|\w+\s*<[\s\S]+>)\s*$"
)
"""How a type is written (RE2). ``COLUMN_TYPE_RULE`` knows the words, and refuses others in a sentence."""

UNHASHABLE_TYPES = ("array", "map", "struct", "variant", "void", "interval", "string collate")
"""How the types begin that Spark cannot hash into buckets, or only with a collation."""

UNNAMEABLE_TYPES = (*UNHASHABLE_TYPES, "binary")
"""How the types begin whose values are no names of folders, so that partitions cannot be read again."""

UNSORTABLE_TYPES = ("map", "variant", "void", "interval", "string collate")
"""How the types begin that Spark cannot sort, or not by their bytes."""

ALLOWED_KEY_TYPES = (
    "boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, timestamp, "
    "timestamp_ntz"
)

_NAMESPACE = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"

_GROUP_REFERENCE = rf"^(({_NAMESPACE}/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"
"""``<group>``, ``<namespace>/<group>`` or nothing: a table may not ask for a group that cannot be made."""

_ALLOWED_NAMESPACE = rf"^(\*|{_NAMESPACE})$"
"""A namespace, or ``*`` for all of them."""


@dataclass(frozen=True)
class Rule:
    """One CEL rule: ``expression`` is true of a good object, ``message`` is a CEL expression of the text.

    ``wanted`` describes a good object, for the reference. ``at_creation``: ``oldSelf`` is an optional
    value, absent of a new object; else a rule that names it is not looked at then.
    """

    wanted: str
    expression: str
    message: str
    at_creation: bool = False

    def to_json_dict(self) -> dict[str, object]:
        """As an entry of ``x-kubernetes-validations``."""
        optional = {"optionalOldSelf": True} if self.at_creation else {}
        return {"rule": self.expression, "messageExpression": self.message, **optional}


GROUP_REFERENCE_RULE = Rule(
    "`colocateWith` is the name of a group, with its namespace if that is another one, or empty.",
    f"self.matches(r'{_GROUP_REFERENCE}')",
    "'colocateWith is ' + self + '; allowed: GROUP, or NAMESPACE/GROUP for one of another namespace, in lower-case "
    "letters, digits, - and .; correct the name'",
)
"""On the field."""

ALLOWED_NAMESPACE_RULE = Rule(
    "`allowedNamespaces` has names of namespaces, or `*`.",
    f"self.matches(r'{_ALLOWED_NAMESPACE}')",
    "'allowedNamespaces has ' + self + '; allowed: namespaces, in lower-case letters, digits and -, or * for all of "
    "them; correct the name'",
)
"""On each item."""


def name_rule(kind: str) -> Rule:
    """On the whole object."""
    return Rule(
        f"The name has at most {MAX_NAME_LENGTH} characters.",
        f"self.metadata.name.size() <= {MAX_NAME_LENGTH}",
        f"'the name has %d characters; a {kind} may have at most {MAX_NAME_LENGTH}, since its name is used as a label; "
        "choose a shorter one'.format([self.metadata.name.size()])",
    )


def _fixed_once_used(field: str) -> Rule:
    """On the whole object: the operator counts the group's tables in the status."""
    return Rule(
        f"`{field}` stays as it is once tables are in the group.",
        "!has(oldSelf.status) || !has(oldSelf.status.tableCount) || oldSelf.status.tableCount == 0 "
        f"|| self.spec.{field} == oldSelf.spec.{field}",
        f"'{field} cannot change once tables are in the group, and %d are; make another group, and name it in "
        "colocateWith of the tables'.format([oldSelf.status.tableCount])",
    )


GROUP_RULES = (
    name_rule(GROUP_KIND),
    _fixed_once_used("bucketKey"),
    _fixed_once_used("buckets"),
)

GROUP_SPEC_RULES = (
    Rule(
        "`bucketKey` holds types that Spark can hash.",
        f"self.bucketKey.all(type, type.lowerAscii().matches(r'{KEY_TYPE_PATTERN}'))",
        f"'bucketKey is [' + self.bucketKey.join(', ') + ']; allowed are the Spark SQL types {ALLOWED_KEY_TYPES}; "
        "give the types of the bucket columns, in their order'",
    ),
    Rule(
        "`bucketSequence` has one list of nodes per bucket.",
        "!has(self.bucketSequence) || size(self.bucketSequence) == self.buckets",
        "'Invalid bucket num. expected: %d, actual: %d; give one list of nodes per bucket, or leave bucketSequence out'"
        ".format([self.buckets, size(self.bucketSequence)])",
    ),
    Rule(
        "`bucketSequence` gives every bucket as many nodes as there are replicas, each once.",
        "!has(self.bucketSequence) || self.bucketSequence.all(nodes, size(nodes) == self.replicas)",
        "'Invalid backend num per bucket. expected: %d, actual: %s; give every bucket so many nodes, or leave "
        "bucketSequence out'.format([self.replicas, "
        "self.bucketSequence.filter(nodes, size(nodes) != self.replicas).map(nodes, size(nodes))])",
    ),
)

_SNAPSHOT = "oldSelf.status.snapshot"
_IS_FILES_BUCKETS = (
    f"(has(oldSelf.status) && has({_SNAPSHOT}) && has({_SNAPSHOT}.buckets) "
    f"? self.spec.buckets == {_SNAPSHOT}.buckets "
    f": has(oldSelf.status) && has({_SNAPSHOT}) && has(oldSelf.status.buckets) "
    "? self.spec.buckets == oldSelf.status.buckets : !has(oldSelf.spec.buckets))"
)
"""Whether the spec has the buckets of the committed files. A rebucketing commits them, and then sets the spec."""

TABLE_RULES = (
    name_rule(TABLE_KIND),
    Rule(
        "`buckets` stays as it is once it is set, or becomes that of files which `colocation rebucket` has written.",
        "!has(self.spec.buckets) || has(oldSelf.spec.buckets) && self.spec.buckets == oldSelf.spec.buckets "
        f"|| {_IS_FILES_BUCKETS}",
        "'buckets cannot become %d: files have another number; to change it, run colocation rebucket, or make a new "
        "table'.format([self.spec.buckets])",
    ),
)


def _names_columns(field: str) -> Rule:
    """Every name in ``field`` is a column, compared without case.

    The list around the names makes CEL compute them once, not once per element of ``field``.
    """
    names = "[self.columns.map(column, column.name.lowerAscii())]"
    return Rule(
        f"`{field}` names columns, compared without case.",
        f"{names}.all(names, self.{field}.all(name, name.lowerAscii() in names))",
        f"'{field} is [' + self.{field}.join(', ') + '], and not all of these are in columns; "
        "give names of columns, or add the columns'",
    )


def _no_column_begins(field: str, types: tuple[str, ...]) -> str:
    """That no column of ``field`` has a type that begins like one of these."""
    return (
        f"[self.{field}.map(name, name.lowerAscii())].all(names, self.columns.all(column, "
        "!(column.name.lowerAscii() in names) || "
        f"![column.type.lowerAscii()].exists(type, {list(types)}.exists(start, type.startsWith(start)))))"
    )


_KEY_COLUMN_TYPES = Rule(
    "The columns of `bucketedBy` have types that Spark can hash.",
    _no_column_begins("bucketedBy", UNHASHABLE_TYPES),
    "'bucketedBy is [' + self.bucketedBy.join(', ') + '], and a column of these has a type that cannot be hashed into "
    f"buckets; allowed are {ALLOWED_KEY_TYPES}; choose other columns'",
)


def _new_columns(field: str, types: tuple[str, ...], wanted: str, why: str) -> Rule:
    """Of a new table, or of a changed field: tables of earlier releases stay as they are."""
    return Rule(
        f"The columns of `{field}` have types {wanted}.",
        f"oldSelf.hasValue() && oldSelf.value().{field} == self.{field} || {_no_column_begins(field, types)}",
        f"'{field} is [' + self.{field}.join(', ') + '], and a column of these has a type {why}; not allowed are "
        f"{', '.join(types)}; choose other columns'",
        at_creation=True,
    )


_VISIBLE_PARTITIONS = Rule(
    "The columns of `partitionedBy` have names that do not begin with a dot.",
    "oldSelf.hasValue() && oldSelf.value().partitionedBy == self.partitionedBy "
    "|| !self.partitionedBy.exists(name, name.startsWith('.'))",
    "'partitionedBy is [' + self.partitionedBy.join(', ') + '], and a name of these begins with a dot; Spark passes "
    "over folders of such names, and no query would see the rows; choose another column, or another name for it'",
    at_creation=True,
)
"""Of a new table, or of a changed field, as ``_new_columns``."""

TABLE_SPEC_RULES = (
    _names_columns("bucketedBy"),
    _names_columns("partitionedBy"),
    _names_columns("sortedBy"),
    _KEY_COLUMN_TYPES,
    _new_columns(
        "partitionedBy", UNNAMEABLE_TYPES, "whose values can name folders", "whose values are no names of folders"
    ),
    _VISIBLE_PARTITIONS,
    _new_columns("sortedBy", UNSORTABLE_TYPES, "that Spark can sort", "that cannot be sorted"),
    Rule(
        "No column is both in `bucketedBy` and in `partitionedBy`.",
        "!self.bucketedBy.exists(key, self.partitionedBy.exists(name, name.lowerAscii() == key.lowerAscii()))",
        "'bucketedBy is [' + self.bucketedBy.join(', ') + '] and partitionedBy is [' + self.partitionedBy.join(', ') "
        "+ ']; a column may be in one of them; take it out of the other'",
    ),
    Rule(
        "A table that is made in no group has `buckets` and `replicas`.",
        "oldSelf.hasValue() || self.colocateWith != '' || (has(self.buckets) && has(self.replicas))",
        "'colocateWith is empty, so no group gives the table its buckets and replicas; "
        "give buckets and replicas, or name a group in colocateWith'",
        at_creation=True,
    ),
    Rule(
        "`bucketedBy` stays as it is.",
        "self.bucketedBy == oldSelf.bucketedBy",
        "'bucketedBy cannot change from [' + oldSelf.bucketedBy.join(', ') + '] to [' + self.bucketedBy.join(', ') "
        "+ ']: files are bucketed by it; make a new table'",
    ),
)

_NESTED = ("array", "map", "struct")
_DECIMALS, _CHARACTERS = ("decimal", "dec", "numeric"), ("varchar", "char", "character")


def _begins(words: tuple[str, ...], bracket: str) -> str:
    """That the type begins with one of these words and the bracket, a blank between them allowed."""
    return " || ".join(f"type.startsWith('{word}{blank}{bracket}')" for word in words for blank in ("", " "))


def _ends(characters: str, bracket: str) -> str:
    return " || ".join(f"type.endsWith('{character}{bracket}')" for character in characters)


COLUMN_TYPE_RULE = Rule(
    "The type of a column is one of Spark SQL's.",
    f"[self.trim().lowerAscii()].all(type, type.endsWith('>') ? {_begins(_NESTED, '<')} "
    f": type.endsWith(')') ? ({_ends('0123456789 ', ')')}) && ({_begins(_DECIMALS, '(')} ? !type.contains('.') "
    f": ({_begins(_CHARACTERS, '(')}) && !type.matches('[.,]')) "
    f": type.startsWith('string collate ') || type in {sorted(TYPES_WITHOUT_ARGUMENTS)})",
    f"'type ' + self + ' is no Spark SQL type; allowed are {ALLOWED_TYPES}; give one of these'",
)
"""On the type. A walk through it costs 1,640 of the 5,000 that 2,000 columns leave to each, and a look at either end
nothing: the rest is for ``COLUMN_TYPE_PATTERN``. Of `?`, the dearer side counts; of `||`, both."""

COLUMN_RULES = (
    Rule(
        "The type of a column stays as it is.",
        "self.type == oldSelf.type",
        "'the type of column ' + self.name + ' cannot change from ' + oldSelf.type + ' to ' + self.type "
        "+ ': files hold it; add a column of another name'",
    ),
    Rule(
        "The `storedAs` of a column stays as it is.",
        "self.storedAs == oldSelf.storedAs",
        "'storedAs of column ' + self.name + ' cannot change from \"' + oldSelf.storedAs + '\" to \"' + self.storedAs "
        "+ '\": files hold the column under that name; to rename it, change its name and give the first name as "
        "storedAs'",
    ),
)
