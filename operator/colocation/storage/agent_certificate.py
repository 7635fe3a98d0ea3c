"""The agent's key and certificate on the node's disk: an agent comes back with them while the operator is away.

One file holds both, so that they always fit each other. Only the user of agents and clone Jobs can read it.
"""

import os

from colocation.model.certificates import MAX_CHAIN_BYTES

from .errors import NotHeld, StorageError
from .folders import open_regular_file, replace_file

CERTIFICATE_FILE = ".agent-certificate.pem"
PRIVATE_MODE = 0o600


def read_certificate(folder: int) -> bytes:
    """The file in an open data root (PEM: key, certificate, chain); empty when there is none that could be one.

    Raises:
        OSError: it cannot be read.
    """
    try:
        descriptor = open_regular_file(folder, CERTIFICATE_FILE)
    except (NotHeld, StorageError):
        return b""
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_CHAIN_BYTES + 1)
    return content if len(content) <= MAX_CHAIN_BYTES else b""


def write_certificate(folder: int, pem: bytes) -> None:
    """Replace the file, durably.

    Raises:
        OSError: it cannot be written, and the one before is still there; or it cannot be synced, and there is none.
    """
    replace_file(folder, CERTIFICATE_FILE, pem, PRIVATE_MODE)
