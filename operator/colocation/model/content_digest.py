"""The ``Content-Digest`` header (RFC 9530) with SHA-256: agent and client write and read it in one way."""

import base64
import binascii
import re

_SHA256_MEMBER = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):\s*(?:$|,)")
_SHA256_HEX = re.compile(r"[0-9a-f]{64}")


def is_sha256(text: str) -> bool:
    """Whether ``text`` is a SHA-256 as we write it: 64 lower-case hex digits."""
    return _SHA256_HEX.fullmatch(text) is not None


def content_digest(sha256: str) -> str:
    """The header's value for a digest of 64 hex digits: ``sha-256=:<base64>:``."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:"


def sha256_of_content_digest(header: str) -> str:
    """The digest, 64 hex digits, in a header's value; other algorithms beside it are passed over.

    Raises:
        ValueError: no SHA-256 in it, or it is not 32 bytes of base64.
    """
    member = _SHA256_MEMBER.search(header)
    if member is None:
        raise ValueError(f"Content-Digest {header!r} holds no sha-256; allowed: sha-256=:<base64 of 32 bytes>:")
    try:
        digest = base64.b64decode(member[1], validate=True)
    except binascii.Error as error:
        raise ValueError(f"Content-Digest {header!r} is not base64: {error}") from error
    if len(digest) != 32:
        raise ValueError(f"Content-Digest {header!r} holds {len(digest)} bytes; a sha-256 has 32")
    return digest.hex()
