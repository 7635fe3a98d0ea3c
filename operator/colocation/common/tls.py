"""A server's certificate, loaded again when it is renewed: of the agents, and of the operator's HTTPS servers."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

CHECK_SECONDS = 30.0

_log = logging.getLogger(__name__)


class Certificate:
    """A server's TLS context whose certificate follows its files.

    Raises:
        OSError: the files cannot be read, or do not hold a certificate with its key (``ssl.SSLError``).
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._version = self._current_version()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_cert_chain(certificate, key)

    def reload_if_changed(self) -> bool:
        """Use renewed files for new connections; whether there were any. Old ones stay when the new do not fit."""
        version = self._current_version()
        if version == self._version:
            return False
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self._certificate, self._key)
        self.context.load_cert_chain(self._certificate, self._key)
        self._version = version
        return True

    @property
    def ends_at(self) -> datetime:
        """When the certificate in the file ends."""
        from cryptography import x509  # imported where it is needed: it is large

        return x509.load_pem_x509_certificate(self._certificate.read_bytes()).not_valid_after_utc

    def _current_version(self) -> tuple[tuple[int, int], ...]:
        statuses = (self._certificate.stat(), self._key.stat())
        return tuple((status.st_ino, status.st_mtime_ns) for status in statuses)


async def follow(certificate: Certificate, renewed: Callable[[], None] = lambda: None) -> None:
    """Take up renewed files, for as long as the task runs, and call ``renewed`` each time."""
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        try:
            if certificate.reload_if_changed():
                _log.info("the certificate was renewed")
                renewed()
        except OSError as error:
            _log.warning("the renewed certificate cannot be used, the old one stays: %s", error)
