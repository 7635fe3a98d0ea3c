"""Builds the cluster's programs from pinned Go modules, once per version and pin, into the user's cache.

A build goes to a temporary folder that is renamed into place when it is complete: an interrupted build leaves nothing
that a later run could mistake for a finished one.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from devcluster import paths, shell
from devcluster.errors import DevclusterError
from devcluster.locks import exclusive
from devcluster.progress import say, tail, timed

GO_SOURCES = paths.PACKAGE / "go"
# A compiler that outlives a killed run would go on writing where the next run cleans up.
INTERRUPT_WITH_PARENT = ("setpriv", "--pdeathsig", "INT")
SPARK_OPERATOR_MODULE = "github.com/kubeflow/spark-operator/v2"
KUEUE_MODULE = "sigs.k8s.io/kueue"


@dataclass(frozen=True)
class Component:
    """One Go module to build: `go/<pins>/go.mod` pins it, `packages` maps each program's name to its Go package.

    ``pins`` is the name, where there is one version only.
    """

    name: str
    version: str
    packages: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    pins: str = ""

    @property
    def source(self) -> Path:
        """The folder with the pins."""
        return GO_SOURCES / (self.pins or self.name)

    @property
    def linker_flags(self) -> str:
        """Strip debug data and stamp the version: a Kubernetes without a version is refused by its own clients."""
        return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in self.variables.items())])

    @property
    def key(self) -> str:
        """Changes with everything that changes the result: version, pins, sources and flags."""
        digest = hashlib.sha256(self.linker_flags.encode())
        for path in sorted(self.source.iterdir()):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"

    @property
    def folder(self) -> Path:
        """Where the finished programs lie."""
        return paths.cache() / self.key

    def program(self, name: str) -> Path:
        """The path of one finished program."""
        return self.folder / name


KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
KUBERNETES_VERSIONS = {"1.30": "v1.30.14", "1.35": "v1.35.4", "1.37": "v1.37.2"}
"""By minor: the oldest that is supported, the one that all tests use, and the newest."""
DEFAULT_MINOR = "1.35"
MINOR_VARIABLE = "DEVCLUSTER_KUBERNETES"
"""Of the environment: another minor, for one run."""


def kubernetes(minor: str) -> Component:
    """The programs of one minor.

    Raises:
        DevclusterError: there are no pins for it.
    """
    if minor not in KUBERNETES_VERSIONS:
        raise DevclusterError(f"{MINOR_VARIABLE}={minor}: there are pins for {', '.join(KUBERNETES_VERSIONS)}")
    version = KUBERNETES_VERSIONS[minor]
    major_number, minor_number = minor.split(".")
    return Component(
        "kubernetes",
        version,
        {program: f"k8s.io/kubernetes/cmd/{program}" for program in KUBERNETES_PROGRAMS},
        {
            "k8s.io/component-base/version.gitVersion": version,
            "k8s.io/component-base/version.gitMajor": major_number,
            "k8s.io/component-base/version.gitMinor": minor_number,
        },
        f"kubernetes-{minor}",
    )


KUBERNETES = kubernetes(os.environ.get(MINOR_VARIABLE) or DEFAULT_MINOR)
ETCD = Component("etcd", "v3.6.8", {"etcd": "go.etcd.io/etcd/server/v3"})
COREDNS = Component("coredns", "v1.15.0", {"coredns": "github.com/coredns/coredns"})
HELM = Component(
    "helm", "v4.3.1", {"helm": "helm.sh/helm/v4/cmd/helm"}, {"helm.sh/helm/v4/internal/version.version": "v4.3.1"}
)
SPARK_OPERATOR = Component("spark-operator", "v2.5.2", {"spark-operator": f"{SPARK_OPERATOR_MODULE}/cmd/operator"})
CRANE = Component("crane", "v0.22.1", {"crane": "github.com/google/go-containerregistry/cmd/crane"})
VERSITYGW = Component("versitygw", "v1.8.0", {"versitygw": "github.com/versity/versitygw/cmd/versitygw"})
KUEUE = Component("kueue", "v0.17.0", {"kueue": f"{KUEUE_MODULE}/cmd/kueue"})
"""For the test of its admission alone."""
PAUSE = Component("pause", "v1", {"pause": "."})

CLUSTER_COMPONENTS = (PAUSE, KUBERNETES, ETCD, COREDNS, HELM)
COMPONENTS = (*CLUSTER_COMPONENTS, SPARK_OPERATOR)
SERVERS = (CRANE, VERSITYGW)
"""An image registry and an object store, which a user's cluster has in addition; for the test of the README."""


def ensure(components: tuple[Component, ...] = CLUSTER_COMPONENTS) -> None:
    """Build what the cache lacks; two runs at once do not compile the same thing twice."""
    for component in components:
        if not component.folder.is_dir():
            with exclusive(paths.cache() / f"{component.key}.lock", f"builds {component.name}"):
                if not component.folder.is_dir():
                    _build(component)


def log_path(component: Component) -> Path:
    """The build's log: kept after a failure."""
    return paths.cache() / f"{component.key}.log"


def build_command(component: Component, output: Path) -> list[str]:
    """One `go build` for all programs of a module, so that they share the compilation of their packages."""
    command = [*INTERRUPT_WITH_PARENT, "go", "build", "-C", str(component.source), "-trimpath", "-buildvcs=false"]
    return [*command, "-ldflags", component.linker_flags, "-o", f"{output}/", *component.packages.values()]


def _build(component: Component) -> None:
    require_go(component, _go_version(component))
    _remove_interrupted_builds(component)
    folder = Path(tempfile.mkdtemp(prefix=f".{component.key}.", dir=paths.cache()))
    output, work = folder / "programs", folder / "work"
    work.mkdir()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTMPDIR": str(work)}
    log = log_path(component)
    with timed(f"building {component.name} {component.version}"), log.open("w") as stream:
        result = subprocess.run(
            build_command(component, output), stdout=stream, stderr=stream, env=environment, check=False
        )
        if result.returncode != 0:
            shutil.rmtree(folder)
            raise DevclusterError(f"building {component.name} failed, see {log}:\n{tail(log)}")
    _name_programs(component, output)
    output.rename(component.folder)
    shutil.rmtree(folder)
    log.unlink()


def _name_programs(component: Component, output: Path) -> None:
    """Go names a program after its package's last path element, which can be vague (`server`, `operator`)."""
    for program, package in component.packages.items():
        built = output / _go_program_name(component, package)
        built.rename(output / program)


def _go_program_name(component: Component, package: str) -> str:
    elements = [element for element in package.split("/") if not _is_major_version(element)]
    return component.name if package == "." else elements[-1]


def _is_major_version(element: str) -> bool:
    return element.startswith("v") and element[1:].isdigit()


def require_go(component: Component, found: str | None) -> None:
    """``found``: the version of Go on the PATH, as `go1.26.8`; None = there is none.

    Raises:
        DevclusterError: Go is missing, or older than the module asks for.
    """
    wanted = go_wanted(component)
    if found is None or _numbers(found) < _numbers(wanted):
        there = "there is no `go` in PATH" if found is None else f"`go` in PATH is {found.removeprefix('go')}"
        raise DevclusterError(f"building {component.name} {component.version} needs Go {wanted} or newer, and {there}")


def go_wanted(component: Component) -> str:
    """The version of Go that the module's go.mod asks for; without a word it is 1.16."""
    lines = (component.source / "go.mod").read_text().splitlines()
    return next((line.split()[1] for line in lines if line.startswith("go ")), "1.16")


def _go_version(component: Component) -> str | None:
    """The one that would build: Go may fetch what a module asks for, else it is the one that is installed."""
    if shutil.which("go") is None:
        return None
    with suppress(DevclusterError):
        return shell.run("go", "env", "-C", component.source, "GOVERSION").strip()
    return shell.run("env", "GOTOOLCHAIN=local", "go", "env", "GOVERSION").strip()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _remove_interrupted_builds(component: Component) -> None:
    """Under the build lock no other process writes these."""
    for leftover in paths.cache().glob(f".{component.key}.*"):
        shutil.rmtree(leftover)


def spark_operator_chart() -> Path:
    """The Helm chart of Kubeflow's Spark operator."""
    return _module_folder(SPARK_OPERATOR, SPARK_OPERATOR_MODULE) / "charts" / "spark-operator-chart"


def kueue_chart() -> Path:
    """The Helm chart of Kueue."""
    return _module_folder(KUEUE, KUEUE_MODULE) / "charts" / "kueue"


def _module_folder(component: Component, module: str) -> Path:
    """The sources of the Go module that pins the component's program; its chart is among them."""
    versioned = f"{module}@{component.version}"
    result = subprocess.run(
        ["go", "mod", "download", "-C", str(component.source), "-json", versioned],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise DevclusterError(f"cannot download {versioned}: {result.stdout}{result.stderr}")
    return Path(json.loads(result.stdout)["Dir"])


def link_programs(folder: Path) -> None:
    """Give users one folder to put into PATH, with kubectl and helm in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for component in CLUSTER_COMPONENTS:
        for program in component.packages:
            link = folder / program
            link.unlink(missing_ok=True)
            link.symlink_to(component.program(program))
    say(f"programs are in {folder}")
