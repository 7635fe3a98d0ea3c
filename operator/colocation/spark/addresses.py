"""Where agents listen: as a session was told, and as their group's ConfigMap says by now.

Spark's pods have the ConfigMap's ``agents.json`` as a file beside the agents' CA, and the kubelet renews it. So whoever
began with an address that is not right any more finds the next one without asking the cluster.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from colocation.model.names import AGENTS_KEY


def addresses_file(ca_file: str) -> Path:
    """The file with the agents' addresses, beside their CA."""
    return Path(ca_file).with_name(AGENTS_KEY)


def urls_of(node: str, told: str, file: Path) -> Callable[[], Sequence[str]]:
    """What looks the addresses of a node's agent up: the one that the session was told, then the file's if it differs.

    A file that is not there, or that cannot be understood, adds nothing: outside of a group's pods there is none.
    """

    def look_up() -> Sequence[str]:
        now = read_addresses(file).get(node, told)
        return (told,) if now == told else (told, now)

    return look_up


def read_addresses(file: Path) -> Mapping[str, str]:
    """Node -> its agent's URL, as the file says; empty when it cannot be read."""
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {node: url for node, url in content.items() if isinstance(url, str) and url.startswith("https://")}
