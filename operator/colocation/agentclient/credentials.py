"""A caller's ServiceAccount token and the agents' CA, read again whenever the kubelet renews them."""

import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from colocation.model.names import AGENT_TLS_SERVER_NAME, CA_PATH, TOKEN_PATH, agent_certificate_name


@dataclass(frozen=True)
class _Version:
    """Identifies one content of a file; the kubelet swaps a symlink, so the inode changes too."""

    inode: int
    modified_nanoseconds: int
    bytes: int


class CallerCredentials(Protocol):
    """How a caller proves itself to an agent, and knows one."""

    def token(self) -> str:
        """The token to send.

        Raises:
            OSError: there is none.
        """

    def tls_context(self) -> ssl.SSLContext:
        """A context that trusts only the agents' CA; a new object when that has changed.

        Raises:
            OSError: there is no CA.
        """

    def certificate_name(self, node: str) -> str:
        """The DNS name that the certificate of this node's agent must have; ``node`` empty = not known."""


class Credentials:
    """Token and CA from files. Safe to share between threads and between clients.

    Args:
        token_path: file with a ServiceAccount token of audience ``colocation.dev``.
        ca_path: PEM file with the CA that signed the agents' certificate.
    """

    def __init__(self, token_path: str | Path = TOKEN_PATH, ca_path: str | Path = CA_PATH) -> None:
        self._token_path = Path(token_path)
        self._ca_path = Path(ca_path)
        self._lock = threading.Lock()
        self._token: tuple[_Version, str] | None = None
        self._context: tuple[_Version, ssl.SSLContext] | None = None

    def token(self) -> str:
        """The current token.

        Raises:
            OSError: the file cannot be read.
        """
        version = _version(self._token_path)
        with self._lock:
            if self._token is None or self._token[0] != version:
                self._token = (version, self._token_path.read_text().strip())
            return self._token[1]

    def tls_context(self) -> ssl.SSLContext:
        """A context that trusts only the agents' CA; a new object when the CA file has changed.

        Raises:
            OSError: the file cannot be read or holds no certificate (``ssl.SSLError`` is an OSError).
        """
        version = _version(self._ca_path)
        with self._lock:
            if self._context is None or self._context[0] != version:
                context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self._ca_path)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                self._context = (version, context)
            return self._context[1]

    def certificate_name(self, node: str) -> str:
        """The node's; where the node is not known, the name that all agents share."""
        return agent_certificate_name(node) if node else AGENT_TLS_SERVER_NAME


def _version(path: Path) -> _Version:
    status = path.stat()
    return _Version(status.st_ino, status.st_mtime_ns, status.st_size)
