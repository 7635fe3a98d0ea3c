"""What is said of a manifest is kept once, as long as an agent reports it."""

from colocation.kube.manifest_memory import MAX_KINDS, ManifestMemory
from colocation.model.agent import BucketReport, TableReport

KEY = ("shop", "orders-12345678", "a" * 64)


def report(files_held: int) -> TableReport:
    """Another one for each number of files."""
    bucket = BucketReport("partial", 1000, files_held, 1000, files_held)
    return TableReport(*KEY[:2], manifest=KEY[2], manifest_present=True, buckets={0: bucket})


def taken(memory: ManifestMemory, files_held: int) -> TableReport:
    shown = report(files_held)
    memory.take(shown)
    return shown


def test_what_was_said_last_is_shared() -> None:
    """Also after so many other words that the first ones have to go."""
    memory = ManifestMemory()
    said = [taken(memory, number) for number in range(MAX_KINDS + 5)]
    for number in range(5, MAX_KINDS + 5):
        assert taken(memory, number).buckets is said[number].buckets


def test_full_lists_keep_what_agents_still_say() -> None:
    """Replicas that move say other words each time."""
    memory = ManifestMemory()
    said = [taken(memory, number) for number in range(10)]
    memory.keep([KEY], said[8:])
    assert taken(memory, 8).buckets is said[8].buckets
    assert taken(memory, 7).buckets is not said[7].buckets
    assert taken(memory, 9).buckets[0] is said[9].buckets[0]
    assert memory.bucket_bytes == {KEY: {0: 1000}}
    memory.keep([], said)
    assert memory.bucket_bytes == {}
