"""Settings of an agent: environment variables, each with a flag that overrides it."""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from colocation.common.logs import LOG_FORMATS
from colocation.model.clone import MIN_CLONE_MIB_PER_SECOND
from colocation.model.credentials import DAY_SECONDS, DEFAULT_LIFETIME_SECONDS, MIN_LIFETIME_SECONDS
from colocation.model.names import AGENT_HEALTH_PORT, AGENT_PORT, DEFAULT_DATA_ROOT

GIB = 1 << 30


@dataclass(frozen=True)
class Settings:
    """``host``: address to listen on; empty = all addresses of the pod, IPv4 and IPv6.

    ``scrub_interval_seconds``: every file is read again from the disk within it, at most at the scrub's pace.

    ``disk_headroom_fraction``: share of the disk that uploads leave free.

    ``kubelet_volume``: a folder on the kubelet's own disk; None = not checked. ``kubelet_reserve_fraction``: share of
    that disk left to the kubelet if the data root is on it, too.

    ``clone_account``: user name of the clone Jobs' account, which may read only what its Job is for.

    ``tls_certificate``, ``tls_key``: those that all agents of the previous release share. They may be missing if there
    is a ``signer_name``, which signs this node's own (see ``certificate_keeper``).

    ``authority``: PEM file of the CAs that clients trust.

    ``clone_mib_per_second``: what all clones together may read of this node; None = no limit.

    ``max_requests``: served at a time; ``max_requests_per_address`` of them for one client address.

    ``memory_bytes``: what the agent may use; None = no limit.

    ``require_mount_point``: the data root has to be a whole file system, not a folder of one.
    """

    node: str
    data_root: Path
    tls_certificate: Path
    tls_key: Path
    host: str = ""
    port: int = AGENT_PORT
    health_port: int = AGENT_HEALTH_PORT
    scrub_interval_seconds: float = 7 * 86400
    scrub_mib_per_second: float = 20.0
    sweep_interval_seconds: float = 60
    disk_headroom_fraction: float = 0.05
    kubelet_volume: Path | None = None
    kubelet_reserve_fraction: float = 0.0
    max_file_bytes: int = 16 * GIB
    shutdown_seconds: float = 20.0
    log_format: str = "text"
    require_mount_point: bool = False
    clone_account: str = ""
    signer_name: str = ""
    authority: Path = Path("/etc/colocation/agent-ca/ca.crt")
    certificate_days: float = DEFAULT_LIFETIME_SECONDS / DAY_SECONDS
    clone_mib_per_second: float | None = None
    max_requests: int = 2048
    max_requests_per_address: int = 512
    memory_bytes: int | None = None

    @property
    def reserved_fraction(self) -> float:
        """Share of the data root's disk left to the kubelet, which evicts pods and admits none when its disk is nearly
        full.
        """
        if self.kubelet_volume is None or not _are_on_one_disk(self.data_root, self.kubelet_volume):
            return 0.0
        return self.kubelet_reserve_fraction

    @property
    def certificate_seconds(self) -> int:
        """The lifetime to ask for."""
        return max(int(self.certificate_days * DAY_SECONDS), MIN_LIFETIME_SECONDS)


def _are_on_one_disk(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


@dataclass(frozen=True)
class _Option:
    """An option: ``--<name>`` or the environment variable ``COLOCATION_<NAME>``."""

    name: str
    help: str
    default: str | None = None

    @property
    def variable(self) -> str:
        return "COLOCATION_" + self.name.upper().replace("-", "_")


OPTIONS = (
    _Option("node-name", "name of the Kubernetes node (spec.nodeName)"),
    _Option("data-root", "the data root", DEFAULT_DATA_ROOT),
    _Option("tls-certificate", "PEM file of the certificate that all agents share", "/etc/colocation/tls/tls.crt"),
    _Option("tls-key", "PEM file of its key", "/etc/colocation/tls/tls.key"),
    _Option("host", "address to listen on; empty = all", Settings.host),
    _Option("port", "HTTPS port of the API", str(Settings.port)),
    _Option("health-port", "plain HTTP port of healthz, readyz and metrics", str(Settings.health_port)),
    _Option("scrub-interval-seconds", "every file is hashed again within it", str(Settings.scrub_interval_seconds)),
    _Option("scrub-mib-per-second", "how fast the scrub may read", str(Settings.scrub_mib_per_second)),
    _Option("sweep-interval-seconds", "how often every file is stat'ed", str(Settings.sweep_interval_seconds)),
    _Option("disk-headroom-fraction", "share of the disk uploads leave free", str(Settings.disk_headroom_fraction)),
    _Option("kubelet-volume", "folder on the kubelet's own disk; empty = not looked at", ""),
    _Option("kubelet-reserve-fraction", "share of that disk that is the kubelet's", "0.0"),
    _Option("max-file-bytes", "largest file that may be uploaded", str(Settings.max_file_bytes)),
    _Option("shutdown-seconds", "how long running requests may end at a stop", str(Settings.shutdown_seconds)),
    _Option("require-mount-point", "true: the data root must be the mount point of a disk of its own", "false"),
    _Option("clone-account", "user name of clone Jobs, system:serviceaccount:…", Settings.clone_account),
    _Option("signer-name", "who signs this node's certificate; empty = it has none", Settings.signer_name),
    _Option("authority", "PEM file of the CAs that clients trust", str(Settings.authority)),
    _Option("certificate-days", "life of this node's certificate", str(Settings.certificate_days)),
    _Option("clone-mib-per-second", "what clones may read of this node; empty = no limit", ""),
    _Option("max-requests", "served at once", str(Settings.max_requests)),
    _Option("max-requests-per-address", "of one client address", str(Settings.max_requests_per_address)),
    _Option("memory-bytes", "that the agent may take; empty = as much as there is", ""),
    _Option("log-format", f"how log lines look: {' or '.join(LOG_FORMATS)}", Settings.log_format),
)


def settings_from(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings from flags and environment; exits with status 2 and a message if one is missing or wrong."""
    parser = _parser(environment)
    given = vars(parser.parse_args(arguments))
    if not given["node_name"]:
        parser.error("the node's name is missing; give --node-name or COLOCATION_NODE_NAME (spec.nodeName)")
    try:
        settings = _settings(given)
    except ValueError as error:
        parser.error(f"{error}; see --help for what each option takes")
    for problem in (*_missing_files(settings), *_values_out_of_range(settings), *_unknown_words(settings, given)):
        parser.error(problem)
    return settings


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m colocation.agent", description="Serve, receive and verify a node's files of colocated tables."
    )
    for option in OPTIONS:
        parser.add_argument(
            f"--{option.name}",
            default=environment.get(option.variable, option.default),
            help=f"{option.help} ({option.variable}; default: {option.default})",
        )
    return parser


def _missing_files(settings: Settings) -> Iterator[str]:
    shared = () if settings.signer_name else (settings.tls_certificate, settings.tls_key)
    for path in (settings.data_root, *shared):
        if not path.exists():
            yield f"{path} does not exist; mount it, or give another by its option (see --help)"


def _values_out_of_range(settings: Settings) -> Iterator[str]:
    for name in ("disk_headroom_fraction", "kubelet_reserve_fraction"):
        fraction = getattr(settings, name)
        if not 0 <= fraction < 1:
            yield f"{name.replace('_', '-')} {fraction} is not allowed; allowed: 0 to below 1"
    if min(settings.scrub_mib_per_second, settings.scrub_interval_seconds, settings.sweep_interval_seconds) <= 0:
        yield "scrub-mib-per-second, scrub-interval-seconds and sweep-interval-seconds must be above 0"
    if settings.clone_mib_per_second is not None and not settings.clone_mib_per_second >= MIN_CLONE_MIB_PER_SECOND:
        yield (
            f"clone-mib-per-second {settings.clone_mib_per_second:g} is not allowed; allowed: "
            f"{MIN_CLONE_MIB_PER_SECOND:g} or more, or nothing for no limit"
        )
    if settings.memory_bytes is not None and settings.memory_bytes <= 0:
        yield f"memory-bytes {settings.memory_bytes} is not allowed; allowed: 1 or more, or nothing: no limit"
    if not 1 <= settings.max_requests_per_address <= settings.max_requests:
        yield (
            f"max-requests-per-address {settings.max_requests_per_address} is not allowed; allowed: 1 to max-requests, "
            f"{settings.max_requests}"
        )


def _unknown_words(settings: Settings, given: Mapping[str, str]) -> Iterator[str]:
    if given["require_mount_point"] not in ("true", "false"):
        yield f"require-mount-point {given['require_mount_point']!r} is not allowed; allowed: true, false"
    if settings.log_format not in LOG_FORMATS:
        yield f"log-format {settings.log_format!r} is not allowed; allowed: {', '.join(LOG_FORMATS)}"


def _settings(given: Mapping[str, str]) -> Settings:
    return Settings(
        node=given["node_name"],
        data_root=Path(given["data_root"]),
        tls_certificate=Path(given["tls_certificate"]),
        tls_key=Path(given["tls_key"]),
        host=given["host"],
        port=int(given["port"]),
        health_port=int(given["health_port"]),
        scrub_interval_seconds=float(given["scrub_interval_seconds"]),
        scrub_mib_per_second=float(given["scrub_mib_per_second"]),
        sweep_interval_seconds=float(given["sweep_interval_seconds"]),
        disk_headroom_fraction=float(given["disk_headroom_fraction"]),
        kubelet_volume=Path(given["kubelet_volume"]) if given["kubelet_volume"] else None,
        kubelet_reserve_fraction=float(given["kubelet_reserve_fraction"]),
        max_file_bytes=int(given["max_file_bytes"]),
        shutdown_seconds=float(given["shutdown_seconds"]),
        log_format=given["log_format"],
        require_mount_point=given["require_mount_point"] == "true",
        clone_account=given["clone_account"],
        signer_name=given["signer_name"] or "",
        authority=Path(given["authority"]),
        certificate_days=float(given["certificate_days"]),
        clone_mib_per_second=float(given["clone_mib_per_second"]) if given["clone_mib_per_second"] else None,
        max_requests=int(given["max_requests"]),
        max_requests_per_address=int(given["max_requests_per_address"]),
        memory_bytes=int(given["memory_bytes"]) if given["memory_bytes"] else None,
    )
