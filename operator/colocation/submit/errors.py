"""What is wrong with a manifest, in words for its author."""


class ManifestError(ValueError):
    """A SparkApplication that cannot be submitted; the message has field, value, allowed values, advice."""


def conflict(where: str, given: object, needed: object, advice: str = "remove yours") -> ManifestError:
    """The manifest's value contradicts what the placement needs."""
    return ManifestError(f"{where} is {given!r} in the manifest, but the group needs {needed!r}: {advice}")
