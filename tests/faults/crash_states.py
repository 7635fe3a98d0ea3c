"""What a disk may hold after a crash, from a log of what a program did to it.

A killed process leaves everything that it did. A machine that loses power leaves less: of a file what it held at its
last ``fsync``, or zeros of its length, or everything; of the names (creations, renames, links, removals) all up to some
moment, which is not before the last one in any folder that was synced since. So ext4 and XFS write them: in order, a
rename whole.
"""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Step(NamedTuple):
    """One system call, or ``acknowledge``: the program said that something is done. Paths are relative to the root."""

    what: str
    path: str
    target: str = ""
    content: bytes = b""


@dataclass
class Recorder:
    """The steps below ``root``, in their order."""

    root: Path
    steps: list[Step] = field(default_factory=list)

    def acknowledge(self, label: str) -> None:
        self.steps.append(Step("acknowledge", label))

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Record what goes through the module ``os``, which all of storage/ uses but for the ledger's SQLite."""
        patch.setattr(os, "open", self._opening(os.open))
        patch.setattr(os, "write", self._writing(os.write))
        patch.setattr(os, "fsync", self._syncing(os.fsync))
        for name, what in (("mkdir", "mkdir"), ("unlink", "unlink"), ("rmdir", "rmdir")):
            patch.setattr(os, name, self._naming(what, getattr(os, name)))
        for name in ("rename", "link"):
            patch.setattr(os, name, self._moving(name, getattr(os, name)))

    def _relative(self, path: str, folder: int | None) -> str | None:
        """Below the root; None = elsewhere, or the ledger."""
        whole = path if folder is None else f"{_path_of(folder)}/{path}"
        found = os.path.relpath(whole, self.root)
        return None if found.startswith(("..", ".ledger")) else found

    def _add(self, what: str, path: str | None, target: str = "", content: bytes = b"") -> None:
        if path is not None:
            self.steps.append(Step(what, path, target, content))

    def _opening(self, call: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            missing = bool(flags & os.O_CREAT) and not _exists(path, dir_fd)
            descriptor = call(path, flags, mode, dir_fd=dir_fd)
            if missing or flags & os.O_TRUNC:
                self._add("create", self._relative(os.fspath(path), dir_fd))
            return descriptor

        return opened

    def _writing(self, call: Callable[..., int]) -> Callable[..., int]:
        def written(descriptor: int, block: bytes) -> int:
            count = call(descriptor, block)
            self._add("write", self._relative(_path_of(descriptor), None), content=bytes(block[:count]))
            return count

        return written

    def _syncing(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def synced(descriptor: int) -> None:
            call(descriptor)
            path = self._relative(_path_of(descriptor), None)
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                self._add("sync folder", path)
            else:
                self._add("sync", path, content=Path(_path_of(descriptor)).read_bytes())

        return synced

    def _naming(self, what: str, call: Callable[..., None]) -> Callable[..., None]:
        def named(path: Any, *rest: Any, dir_fd: int | None = None) -> None:
            call(path, *rest, dir_fd=dir_fd)
            self._add(what, self._relative(os.fspath(path), dir_fd))

        return named

    def _moving(self, what: str, call: Callable[..., None]) -> Callable[..., None]:
        def moved(source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            call(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            to = self._relative(os.fspath(target), dst_dir_fd)
            assert to is not None
            self._add(what, self._relative(os.fspath(source), src_dir_fd), to)

        return moved


def _path_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def _exists(path: Any, folder: int | None) -> bool:
    try:
        os.stat(path, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@dataclass
class File:
    """``synced`` is what its last fsync brought to the disk; None = nothing yet."""

    content: bytes = b""
    synced: bytes | None = None


Names = dict[str, File | None]
"""Files and folders (None) by path."""


class CrashState(NamedTuple):
    """The disk after a crash; ``acknowledged`` is what the program had said to be done."""

    name: str
    contents: dict[str, bytes | None]
    acknowledged: frozenset[str]

    def lay_out(self, root: Path) -> None:
        """Make the state's files and folders in an empty folder."""
        for path, content in sorted(self.contents.items()):
            if content is None:
                (root / path).mkdir(parents=True, exist_ok=True)
            elif (root / path).parent.is_dir():
                (root / path).write_bytes(content)


def crash_states(before: dict[str, bytes | None], steps: list[Step]) -> Iterator[CrashState]:
    """All states for a crash after each of the steps, each once.

    Args:
        before: what the disk held, all of it synced; None = a folder.
        steps: from there on.
    """
    seen: set[tuple[object, ...]] = set()
    for count in range(len(steps) + 1):
        done = steps[:count]
        acknowledged = frozenset(step.path for step in done if step.what == "acknowledge")
        names_seen = [index for index, step in enumerate(done, 1) if step.what in _NAME_STEPS]
        last = names_seen[-1] if names_seen else 0
        forced = _forced(done)
        for journal in sorted({0, *names_seen}):
            if journal < forced:
                continue
            for loses in ("nothing", "unsynced bytes", "unsynced bytes, as zeros"):
                contents = _contents(_replayed(before, done, journal), loses)
                key = (acknowledged, tuple(sorted(contents.items(), key=lambda item: item[0])))
                if key not in seen:
                    seen.add(key)
                    names = "all names" if journal == last else f"names up to step {journal}"
                    yield CrashState(f"after step {count}, {names}, loses {loses}", contents, acknowledged)


_NAME_STEPS = {"create", "mkdir", "unlink", "rmdir", "rename", "link"}


def _forced(done: list[Step]) -> int:
    """How many steps' names are on the disk at least."""
    forced = 0
    for index, step in enumerate(done, 1):
        if step.what == "sync folder":
            within = [
                position
                for position, other in enumerate(done[:index], 1)
                if other.what in _NAME_STEPS and step.path in {_folder(other.path), _folder(other.target or other.path)}
            ]
            forced = max([forced, *within])
    return forced


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _replayed(before: dict[str, bytes | None], done: list[Step], journal: int) -> Names:
    """The names after ``journal`` steps, of files with what all the steps wrote."""
    now: Names = {path: None if content is None else File(content, content) for path, content in before.items()}
    names = dict(now)
    for index, step in enumerate(done, 1):
        _apply(now, step)
        if index == journal:
            names = dict(now)
    return names


def _apply(names: Names, step: Step) -> None:
    match step.what:
        case "create":
            known = names.get(step.path)
            if known is not None:
                known.content = b""
            else:
                names[step.path] = File()
        case "mkdir":
            names[step.path] = None
        case "unlink" | "rmdir":
            names.pop(step.path, None)
        case "link":
            names[step.target] = names[step.path]
        case "rename":
            for path in [one for one in names if one == step.path or one.startswith(step.path + "/")]:
                names[step.target + path[len(step.path) :]] = names.pop(path)
        case "write":
            written = names[step.path]
            assert written is not None
            written.content += step.content
        case "sync":
            synced = names[step.path]
            assert synced is not None
            synced.content = synced.synced = step.content


def _contents(names: Names, loses: str) -> dict[str, bytes | None]:
    return {path: None if file is None else _content(file, loses) for path, file in names.items()}


def _content(file: File, loses: str) -> bytes:
    if loses == "nothing" or file.content == file.synced:
        return file.content
    return file.synced or b"" if loses == "unsynced bytes" else bytes(len(file.content))
