"""A TCP proxy that cuts connections after a number of bytes: a network that fails in the middle of an answer."""

import contextlib
import socket
import threading
from types import TracebackType


class CuttingProxy(contextlib.AbstractContextManager["CuttingProxy"]):
    """Forwards connections to a local port; the first ``cuts`` end after ``cut_after_bytes`` from it."""

    def __init__(self, port: int, cut_after_bytes: int, cuts: int) -> None:
        self._target = ("127.0.0.1", port)
        self._cut_after_bytes = cut_after_bytes
        self._cuts_left = cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Its address, as an agent's URL."""
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            far = socket.create_connection(self._target)
            allowed_bytes = None
            if self._cuts_left > 0:
                self._cuts_left -= 1
                allowed_bytes = self._cut_after_bytes
            threading.Thread(target=_pass_on, args=(near, far, None), daemon=True).start()
            threading.Thread(target=_pass_on, args=(far, near, allowed_bytes), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, allowed_bytes: int | None) -> None:
    """Copy until the source ends or the allowance is used up, then close both."""
    with contextlib.suppress(OSError):
        while block := source.recv(1 << 16):
            if allowed_bytes is not None:
                block = block[:allowed_bytes]
                allowed_bytes -= len(block)
            target.sendall(block)
            if allowed_bytes == 0:
                break
    for connection in (source, target):
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        connection.close()
