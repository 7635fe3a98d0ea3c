"""What is wrong with a manifest, in words for its author."""


class ManifestError(ValueError):
    """A SparkApplication that cannot be submitted: says which field, what it holds, what is allowed, what to do."""


def conflict(where: str, given: object, needed: object, advice: str = "remove yours") -> ManifestError:
    """The manifest says one thing, the placement needs another."""
    return ManifestError(f"{where} is {given!r} in the manifest, but the group needs {needed!r}: {advice}")
