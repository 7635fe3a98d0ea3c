"""What an agent's certificate is: agents ask for exactly this, and the operator lets nothing else pass."""

from collections.abc import Sequence

from .names import AGENT_TLS_SERVER_NAME, agent_certificate_name

ORGANIZATION = "colocation.dev"
"""The whole subject: names are in the subject alternative name only."""
USAGES = ("digital signature", "server auth")
"""``spec.usages`` of the CertificateSigningRequest."""
DAY_SECONDS = 86400
DEFAULT_LIFETIME_SECONDS = 90 * DAY_SECONDS
MIN_LIFETIME_SECONDS = 600
"""The API server takes no shorter ``spec.expirationSeconds``."""
MAX_REQUEST_BYTES = 1 << 14
MAX_CHAIN_BYTES = 1 << 16


def certificate_names(node: str) -> Sequence[str]:
    """DNS names: the node's, on which today's clients insist, and the shared one of those of the release before."""
    return agent_certificate_name(node), AGENT_TLS_SERVER_NAME
