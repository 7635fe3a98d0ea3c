"""The files of an image as a container sees them, read from its layers: nothing is unpacked or mounted."""

import contextlib
import posixpath
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
"""As the OCI image specification has them: a file, or all of a folder, is gone in this layer."""

Found = dict[str, tuple[tarfile.TarFile, tarfile.TarInfo]]


def image_files(layers: Sequence[Path], is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """(path, content) of the wanted regular files, by path; paths are relative to the root.

    Args:
        layers: tar files, compressed or not, the lowest first.
        is_wanted: whether a file is, by its path.
    """
    with contextlib.ExitStack() as stack:
        found: Found = {}
        for layer in layers:
            _put_on_top(found, stack.enter_context(tarfile.open(layer)), is_wanted)
        for path, (archive, member) in sorted(found.items(), key=lambda item: item[0]):
            stream = archive.extractfile(member)  # follows a hard link within the layer
            if stream is not None:
                yield path, stream.read()


def _put_on_top(found: Found, archive: tarfile.TarFile, is_wanted: Callable[[str], bool]) -> None:
    """Remove what a layer hides of those below it (its whiteouts), then add its files."""
    members = [(posixpath.normpath(member.name).lstrip("/"), member) for member in archive]
    for path, member in members:
        folder, name = posixpath.split(path)
        if name == OPAQUE:
            _remove(found, folder)
        elif name.startswith(WHITEOUT):
            hidden = posixpath.join(folder, name.removeprefix(WHITEOUT))
            found.pop(hidden, None)
            _remove(found, hidden)
        elif not member.isdir():
            found.pop(path, None)
    for path, member in members:
        is_file = (member.isfile() or member.islnk()) and not posixpath.basename(path).startswith(WHITEOUT)
        if is_file and is_wanted(path):
            found[path] = (archive, member)


def _remove(found: Found, folder: str) -> None:
    for path in [path for path in found if path.startswith(f"{folder}/")]:
        del found[path]
