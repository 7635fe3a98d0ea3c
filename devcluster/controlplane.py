"""etcd, the API server, the controllers, the scheduler and DNS: plain processes on the host."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from devcluster import cgroups, configuration, network, paths, pki, processes, shell
from devcluster.binaries import COREDNS, ETCD, KUBERNETES
from devcluster.progress import timed

GROUP = f"{cgroups.ROOT}/control-plane"
STORE_AND_API = ("etcd", "kube-apiserver")
PROGRAMS = (*STORE_AND_API, "kube-controller-manager", "kube-scheduler", "coredns")
KEEPERS_OF_STATE = ("coredns", "kube-controller-manager", "kube-scheduler", "kube-apiserver", "etcd")
READY_DEADLINE_SECONDS = 90.0
ETCD_DATA = paths.STATE / "etcd"


def start() -> None:
    """Start everything in the order in which one needs the other."""
    with timed("control plane"):
        _write_configuration()
        commands = _commands()
        _start("etcd", commands["etcd"])
        _start("kube-apiserver", commands["kube-apiserver"])
        _wait_ready("kube-apiserver", api_is_ready)
        kubectl("apply", "-f", "-", stdin=configuration.DNS_ACCESS)
        _start("kube-controller-manager", commands["kube-controller-manager"])
        _start("kube-scheduler", commands["kube-scheduler"])
        _start("coredns", commands["coredns"])
        _wait_ready("kube-controller-manager", lambda: succeeds("get", "serviceaccount", "default"))


def kill(program: str) -> None:
    """End one of `PROGRAMS` as a crash would.

    Raises:
        DevclusterError: it does not run.
    """
    processes.require_running(program)
    processes.end(program)


def start_again(program: str) -> None:
    """Start a program that was killed, with the state that it left. Does not wait until it serves."""
    if not processes.running(program):
        _start(program, _commands()[program])


def start_all_again() -> None:
    """Start every program that does not run. Those that need the API server come when it is ready: they would end
    themselves. One that does not get ready is no error here; its users report it.
    """
    for program in STORE_AND_API:
        start_again(program)
    deadline = time.monotonic() + READY_DEADLINE_SECONDS
    while not api_is_ready() and time.monotonic() < deadline:
        time.sleep(0.5)
    for program in PROGRAMS:
        start_again(program)


def copy_etcd(folder: Path) -> None:
    """Copy what etcd has stored. It stands still meanwhile, so that the copy is what a crash would have left.

    Raises:
        DevclusterError: etcd does not run.
        OSError: it cannot be copied. The folder holds what it held.
    """
    identity = processes.require_running("etcd")
    partial = _new(folder.with_name(f"{folder.name}.partial"))
    os.kill(identity.pid, signal.SIGSTOP)
    try:
        shutil.copytree(ETCD_DATA, partial)
    finally:
        os.kill(identity.pid, signal.SIGCONT)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def restore_etcd(folder: Path) -> None:
    """Replace what etcd has stored by a copy that `copy_etcd` made. etcd and all that keep something of it in memory
    are ended, also when a later step fails; `start_all_again` starts them.

    Raises:
        DevclusterError, OSError: nothing was replaced: etcd's data are the old ones.
    """
    fresh, old = (_new(ETCD_DATA.with_name(f"{ETCD_DATA.name}.{suffix}")) for suffix in ("new", "old"))
    shutil.copytree(folder, fresh)
    for program in KEEPERS_OF_STATE:
        processes.end(program)
    ETCD_DATA.rename(old)
    try:
        fresh.rename(ETCD_DATA)
    except OSError:
        old.rename(ETCD_DATA)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _new(folder: Path) -> Path:
    """A name that no folder has: what an earlier failure left is removed."""
    if folder.exists():
        shutil.rmtree(folder)
    return folder


def _commands() -> dict[str, list[str]]:
    return {
        "etcd": etcd_command(),
        "kube-apiserver": apiserver_command(),
        "kube-controller-manager": controller_manager_command(),
        "kube-scheduler": scheduler_command(),
        "coredns": [str(COREDNS.program("coredns")), "-conf", str(paths.CONFIG / "Corefile")],
    }


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """Run kubectl as the cluster's admin."""
    return shell.run(*_kubectl(), *arguments, stdin=stdin)


def succeeds(*arguments: str) -> bool:
    """Whether a kubectl command succeeds."""
    return shell.succeeds(*_kubectl(), *arguments)


def api_is_ready() -> bool:
    """Whether the API server serves."""
    return succeeds("get", "--raw", "/readyz", "--request-timeout=2s")


def _kubectl() -> tuple[Path | str, ...]:
    return KUBERNETES.program("kubectl"), "--kubeconfig", paths.KUBECONFIG


def _write_configuration() -> None:
    pki.create_all(paths.PKI)
    paths.CONFIG.mkdir(parents=True, exist_ok=True)
    authority = paths.PKI / "ca.crt"
    for user in ("controller-manager", "scheduler", "kube-proxy", "coredns"):
        text = configuration.kubeconfig(authority, pki.Pair(paths.PKI, user))
        (paths.CONFIG / f"{user}.kubeconfig").write_text(text)
    paths.KUBECONFIG.touch(mode=0o600)
    paths.KUBECONFIG.write_text(configuration.kubeconfig(authority, pki.Pair(paths.PKI, "admin")))
    (paths.CONFIG / "Corefile").write_text(configuration.corefile(paths.CONFIG / "coredns.kubeconfig"))
    (paths.CONFIG / "resolv.conf").write_text(configuration.resolver())


def _start(name: str, command: list[str]) -> None:
    processes.start(name, GROUP, command)


def _wait_ready(program: str, condition: Callable[[], bool]) -> None:
    shell.wait_until(
        f"{program} is ready",
        lambda: bool(processes.require_running(program)) and condition(),
        READY_DEADLINE_SECONDS,
        processes.log_path(program),
    )


def _certificate_flags(**flags: str) -> list[str]:
    return [f"--{flag.replace('_', '-')}={paths.PKI / file}" for flag, file in flags.items()]


def etcd_command() -> list[str]:
    """Does not wait for the disk: a cluster for tests does not outlive the machine."""
    return [
        str(ETCD.program("etcd")),
        f"--data-dir={ETCD_DATA}",
        "--unsafe-no-fsync",
        "--listen-client-urls=https://127.0.0.1:12379",
        "--advertise-client-urls=https://127.0.0.1:12379",
        "--listen-peer-urls=http://127.0.0.1:12380",
        "--client-cert-auth",
        *_certificate_flags(cert_file="etcd.crt", key_file="etcd.key", trusted_ca_file="etcd-ca.crt"),
        "--log-level=warn",
    ]


def apiserver_command() -> list[str]:
    """Reaches webhooks and aggregated APIs at their pods' addresses, as no kube-proxy runs on the host."""
    return [
        str(KUBERNETES.program("kube-apiserver")),
        f"--bind-address={network.HOST_ADDRESS}",
        f"--advertise-address={network.HOST_ADDRESS}",
        "--secure-port=6443",
        "--etcd-servers=https://127.0.0.1:12379",
        *_certificate_flags(etcd_cafile="etcd-ca.crt", etcd_certfile="apiserver-etcd.crt",
                            etcd_keyfile="apiserver-etcd.key"),
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={network.SERVICE_RANGE}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        *_certificate_flags(service_account_key_file="service-account.pub",
                            service_account_signing_key_file="service-account.key"),
        *_certificate_flags(client_ca_file="ca.crt", tls_cert_file="apiserver.crt",
                            tls_private_key_file="apiserver.key"),
        "--kubelet-preferred-address-types=InternalIP",
        *_certificate_flags(kubelet_certificate_authority="ca.crt", kubelet_client_certificate="apiserver-kubelet.crt",
                            kubelet_client_key="apiserver-kubelet.key"),
        "--enable-aggregator-routing=true",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        *_certificate_flags(requestheader_client_ca_file="front-proxy-ca.crt", proxy_client_cert_file="front-proxy.crt",
                            proxy_client_key_file="front-proxy.key"),
        "--profiling=false",
    ]  # fmt: skip


def controller_manager_command() -> list[str]:
    """Calls a silent node lost after seconds instead of the usual 40."""
    kubeconfig = paths.CONFIG / "controller-manager.kubeconfig"
    return [
        str(KUBERNETES.program("kube-controller-manager")),
        "--bind-address=127.0.0.1",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        *_certificate_flags(root_ca_file="ca.crt", service_account_private_key_file="service-account.key"),
        *_certificate_flags(cluster_signing_cert_file="ca.crt", cluster_signing_key_file="ca.key"),
        f"--node-monitor-grace-period={configuration.NODE_LOST_AFTER_SECONDS}s",
        "--node-monitor-period=2s",
    ]  # fmt: skip


def scheduler_command() -> list[str]:
    """One scheduler needs no election."""
    kubeconfig = paths.CONFIG / "scheduler.kubeconfig"
    return [
        str(KUBERNETES.program("kube-scheduler")),
        "--bind-address=127.0.0.1",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
    ]
