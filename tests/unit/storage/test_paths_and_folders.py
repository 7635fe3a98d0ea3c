"""Names that are allowed below a data root; nothing leads out of it; small files are replaced whole."""

import contextlib
import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colocation.model.table_manifest import bucket_of_file_name
from colocation.storage.errors import InvalidPath, NotHeld
from colocation.storage.folders import names_in, replace_file
from colocation.storage.paths import (
    TablePath,
    file_segments,
    is_data_file_name,
    is_file_path,
    is_namespace,
    is_table_directory,
    table_path,
)
from colocation.storage.root import DataRoot

from .tables import data_path, on_disk, publish

TABLE = TablePath("shop", "orders-0a1b2c3d")
SHA = "ab" * 32


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("data/part-1_00003.c000.zstd.parquet", id="no partition"),
        pytest.param("data/o_orderdate=1995-03-15/part-1_00003.c000.zstd.parquet", id="date"),
        pytest.param("data/a=1/b=__HIVE_DEFAULT_PARTITION__/part-x-y_7.parquet", id="null"),
        pytest.param("data/path=a%2Fb%25/part-1_1.parquet", id="escaped slash and percent"),
        pytest.param("data/größe=5 Fuß + 🙂/part-1_1.parquet", id="unicode and blanks"),
        pytest.param(f"manifests/{SHA}.json.zst", id="manifest"),
    ],
)
def test_allows_paths_that_loads_write(path: str) -> None:
    """Data files below partition folders as Spark escapes them, and manifests."""
    assert "/".join(file_segments(path)) == path


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("", id="empty"),
        pytest.param("data", id="folder"),
        pytest.param("/etc/passwd", id="absolute"),
        pytest.param("data/../../other/data/part-1_1.parquet", id="dots"),
        pytest.param("data/./part-1_1.parquet", id="dot"),
        pytest.param("data//part-1_1.parquet", id="empty segment"),
        pytest.param("data/%2e%2e/part-1_1.parquet", id="encoded dots"),
        pytest.param("data/a=%2E%2E/part-1_1.parquet", id="encoded dots in a value"),
        pytest.param("data/a=1%00/part-1_1.parquet", id="encoded NUL"),
        pytest.param("data/a=b%2fc/part-1_1.parquet", id="encoded as Spark does not"),
        pytest.param("data/a=1\0/part-1_1.parquet", id="NUL"),
        pytest.param("data/a=1\n/part-1_1.parquet", id="newline"),
        pytest.param("data/a=b\\c/part-1_1.parquet", id="backslash"),
        pytest.param("data/.hidden=1/../part-1_1.parquet", id="hidden"),
        pytest.param("data/plain/part-1_1.parquet", id="folder without a value"),
        pytest.param("data/part-1.parquet", id="no bucket"),
        pytest.param("data/part-1_1.parquet.exe", id="not Parquet"),
        pytest.param(f"data/a={'x' * 260}/part-1_1.parquet", id="too long"),
        pytest.param(f"data/a={'ß' * 130}/part-1_1.parquet", id="too long in bytes"),
        pytest.param(f"data/{'x' * 250}_1.parquet", id="too long a file name"),
        pytest.param("data/" + "a=1/" * 17 + "part-1_1.parquet", id="too deep"),
        pytest.param("data/a=\ud800/part-1_1.parquet", id="lone surrogate"),
        pytest.param(f"manifests/{SHA.upper()}.json.zst", id="upper-case digest"),
        pytest.param(f"manifests/x/{SHA}.json.zst", id="manifest in a folder"),
        pytest.param(".incoming/uploads/x", id="incoming"),
        pytest.param("other/part-1_00003.parquet", id="in another folder"),
        pytest.param("part-1_00003.parquet", id="in no folder"),
    ],
)
def test_refuses_other_paths(path: str) -> None:
    """Every other path is refused before the disk is touched."""
    with pytest.raises(InvalidPath):
        file_segments(path)


@pytest.mark.parametrize("more", [0, 1], ids=["longest", "too long"])
def test_the_longest_names(more: int) -> None:
    """Of Kubernetes, Linux file systems and Hive."""
    is_allowed = not more
    namespace, directory = "a" * (63 + more), "a" * (246 + more) + "-0a1b2c3d"
    assert (is_namespace(namespace), is_table_directory(directory)) == (is_allowed, is_allowed)
    for names in ((namespace, "orders-0a1b2c3d"), ("shop", directory)):
        with contextlib.nullcontext() if is_allowed else pytest.raises(InvalidPath):
            assert table_path(*names) == names
    for path in (
        f"data/{'x' * (245 + more)}_1.parquet",
        f"data/a={'x' * (253 + more)}/part_1.parquet",
        f"data/{'a=1/' * (16 + more)}part_1.parquet",
    ):
        assert is_file_path(path) is is_allowed


@given(st.from_regex(r"[A-Za-z0-9._-]*_[0-9]+[A-Za-z0-9._-]*", fullmatch=True))
def test_a_data_file_has_a_bucket(stem: str) -> None:
    """Whatever else its name contains, Spark finds a bucket there."""
    name = f"{stem}.parquet"
    if is_data_file_name(name):
        assert bucket_of_file_name(name) is not None


@pytest.mark.parametrize(
    ("namespace", "directory"),
    [
        pytest.param("..", "orders-0a1b2c3d", id="dots"),
        pytest.param("Shop", "orders-0a1b2c3d", id="upper case"),
        pytest.param(".incoming", "orders-0a1b2c3d", id="our own folder"),
        pytest.param("a" * 64, "orders-0a1b2c3d", id="long namespace"),
        pytest.param("shop", "orders", id="no uid"),
        pytest.param("shop", "orders-0a1b2c3", id="short uid"),
        pytest.param("shop", "orders-0a1b2c3z", id="no uid's digits"),
        pytest.param("shop", "-0a1b2c3d", id="no table"),
        pytest.param("shop", "orders/../x-0a1b2c3d", id="slash"),
        pytest.param("shop", "orders-0a1b2c3d\n", id="newline"),
        pytest.param("shop", "a" * 250 + "-0a1b2c3d", id="long directory"),
    ],
)
def test_refuses_other_tables(namespace: str, directory: str) -> None:
    """Only a namespace and ``<table>-<uid8>`` name a table's folder."""
    with pytest.raises(InvalidPath):
        table_path(namespace, directory)


def test_the_table_is_the_directory_without_its_uid() -> None:
    """Dots and dashes belong to the table's name."""
    assert table_path("shop", "order.lines-2-0a1b2c3d").table == "order.lines-2"


@pytest.mark.parametrize("step", ["shop", "shop/orders-0a1b2c3d", "shop/orders-0a1b2c3d/data"])
def test_a_link_in_place_of_a_folder_is_refused(root: DataRoot, tmp_path: Path, step: str) -> None:
    """A symbolic link planted anywhere on the way is neither read nor written through."""
    outside = tmp_path / "outside"
    whole = outside / "shop/orders-0a1b2c3d/data"
    whole.mkdir(parents=True)
    (whole / data_path(1).removeprefix("data/")).write_bytes(b"secret")
    link = root.path / step
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / step)

    with pytest.raises(InvalidPath), root.file(TABLE, data_path(1)):
        pass
    with pytest.raises(InvalidPath):
        publish(root, TABLE, data_path(2), b"content")
    assert [path.name for path in whole.iterdir()] == [data_path(1).removeprefix("data/")]


@pytest.mark.parametrize("name", ["", ".", "..", "../outside", "shop/orders-0a1b2c3d", "sh\0op"])
def test_a_step_is_a_plain_name(root: DataRoot, name: str) -> None:
    """The second line of defence does not trust the first."""
    for segments in ((name,), ("shop", name)):
        with pytest.raises(InvalidPath), root.folder(segments, create=True):
            pass
    assert not (root.path.parent / "outside").exists()


def test_a_folder_whose_name_could_not_be_synced_is_removed(
    root: DataRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later callers would assume that it is durable, and sync only what is below it."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", Mock(side_effect=OSError(5, "Input/output error")))
        with pytest.raises(OSError, match="Input/output"), root.folder(("shop",), create=True):
            pass
    assert not (root.path / "shop").exists()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_only_regular_files_are_served(root: DataRoot, tmp_path: Path, kind: str) -> None:
    """A link, a pipe or a folder in place of a file is refused."""
    place = on_disk(root, TABLE, data_path(1))
    place.parent.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"secret")
    match kind:
        case "link":
            place.symlink_to(tmp_path / "secret")
        case "fifo":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
    with pytest.raises(InvalidPath), root.file(TABLE, data_path(1)):
        pass


def test_a_missing_file_is_not_held(root: DataRoot) -> None:
    """Missing and refused are different errors."""
    with pytest.raises(NotHeld, match=r"^no folder shop$"), root.file(TABLE, data_path(1)):
        pass
    on_disk(root, TABLE, "data").mkdir(parents=True)
    with pytest.raises(NotHeld, match=r"^no file part-1_00001"), root.file(TABLE, data_path(1)):
        pass


def test_only_tables_are_listed(root: DataRoot, tmp_path: Path) -> None:
    """Links, files and folders with other names are no tables."""
    publish(root, TABLE, data_path(1), b"content")
    (root.path / "lost+found").mkdir()
    (root.path / "shop" / "notes").mkdir()
    (root.path / "linked").symlink_to(tmp_path)
    assert root.tables() == (TABLE,)
    assert root.names(("shop",)) == ["notes", "orders-0a1b2c3d"]
    assert root.names(("lake",)) == []


@pytest.mark.parametrize(
    ("syncs_before_failure", "left"),
    [
        pytest.param(0, {"file": b"old"}, id="the new one cannot be written: the old one stays"),
        pytest.param(1, {}, id="the rename cannot be synced: either could remain after a power loss"),
        pytest.param(2, {"file": b"new"}, id="nothing fails"),
    ],
)
def test_a_failed_replacement_leaves_a_whole_file(
    syncs_before_failure: int, left: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node's certificate outlives a renewal that finds no room."""
    syncs = 0

    def sync(descriptor: int) -> None:
        nonlocal syncs
        assert os.fstat(descriptor).st_size, "what is synced is there"
        syncs += 1
        if syncs > syncs_before_failure:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", sync)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if syncs_before_failure < 2:
            with pytest.raises(OSError, match="No space"):
                replace_file(folder, "file", b"new")
        else:
            replace_file(folder, "file", b"new")
        assert {name: (tmp_path / name).read_bytes() for name in names_in(folder)} == left
    finally:
        os.close(folder)


def test_a_small_file_has_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    """Whatever the umask."""
    folder, before = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY), os.umask(0o077)
    try:
        replace_file(folder, "open", b"new")
        replace_file(folder, "secret", b"new", 0o600)
    finally:
        os.umask(before)
        os.close(folder)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("open", "secret")] == [0o644, 0o600]


def test_a_probe_writes_and_leaves_nothing(root: DataRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes no byte is found, although it makes files."""
    root.check_writable()
    monkeypatch.setattr(os, "write", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(OSError, match="No space"):
        root.check_writable()
    assert [path.name for path in (root.path / ".incoming").iterdir() if path.is_file()] == []
