"""An nginx whose reads of files fail with a chosen error number, returned by the kernel itself (seccomp).

Run as a program (``failing_nginx.py <call> <errno> <nginx> <arguments>``) it installs the filter and executes nginx.
"""

import ctypes
import os
import platform
import shutil
import struct
import sys
from pathlib import Path

FIRST_BAD_BYTE = 128 << 10
"""Of each file; nginx' own configuration is shorter."""

_CALL_NUMBERS = {"x86_64": {"openat": 257, "pread": 17}, "aarch64": {"openat": 56, "pread": 67}}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _FLAGS_OF_OPENAT, _OFFSET_OF_PREAD = 0, 16 + 2 * 8, 16 + 3 * 8
"""Where they stand in the kernel's ``struct seccomp_data``."""
_FLAGS_OF_A_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
"""So nginx opens the file itself, when it follows no links; folders on the way are opened otherwise."""


def install(folder: Path, call: str, number: int) -> Path:
    """A folder for the front of PATH, with an nginx whose ``call`` fails with ``number``."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    folder.mkdir()
    script = folder / "nginx"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" {call} {number} "{nginx}" "$@"\n')
    script.chmod(0o755)
    return folder


def _filter(call: str, number: int) -> bytes:
    """The filter's program: fail with the number if the argument matches, else allow the call."""
    place, test, value = {
        "openat": (_FLAGS_OF_OPENAT, _EQUAL, _FLAGS_OF_A_FILE),
        "pread": (_OFFSET_OF_PREAD, _AT_LEAST, FIRST_BAD_BYTE),
    }[call]
    lines = [
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 3, _CALL_NUMBERS[platform.machine()][call]),
        (_LOAD, 0, 0, place),
        (test, 0, 1, value),
        (_RETURN, 0, 0, _FAIL | number),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _become_failing(call: str, number: int) -> None:
    program = ctypes.create_string_buffer(_filter(call, number))
    head = ctypes.create_string_buffer(struct.pack("HL", 6, ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, head, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl failed")


if __name__ == "__main__":
    _become_failing(sys.argv[1], int(sys.argv[2]))
    os.execv(sys.argv[3], sys.argv[3:])
