"""A cluster with both operators on it: Kubeflow's for Spark applications and ours for colocation groups."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devcluster import binaries, cluster, images, paths, sbom

from .shell import REPOSITORY, kubectl, run
from .workload import QUICK_JAVA

OPERATOR_IMAGE = "localhost/colocation-operator:dev"
SPARK_IMAGE = "localhost/colocation-spark:dev"
OPERATOR_NAMESPACE = "colocation-system"
SPARK_OPERATOR_NAMESPACE = "spark-operator"
SHARED_DISK = {
    "limits.diskHeadroomFraction": "0.01", "agent.diskHeadroomFraction": "0.005",
    "agent.kubeletReserveFraction": "0.01",
}  # fmt: skip
"""The nodes' disks are this machine's one disk: a tenth of it would be far more than a node of the demo uses. The
kubelets evict pods below 1 %.
"""
CHART = REPOSITORY / "charts" / "colocation-operator"


def use_embedded_cluster() -> None:
    """Point kubectl, helm and the ``colocation`` command of this process at the embedded cluster."""
    os.environ["PATH"] = f"{paths.BIN}:{os.environ['PATH']}"
    os.environ["KUBECONFIG"] = str(paths.KUBECONFIG)


def build_images() -> list[str]:
    """Build all images from the real Dockerfiles, Spark's and ours; returns their names."""
    with ThreadPoolExecutor() as pool:
        ours = pool.submit(images.build, OPERATOR_IMAGE, REPOSITORY / "Dockerfile", REPOSITORY, {})
        images.build(SPARK_IMAGE, REPOSITORY / "spark_images" / "Dockerfile", REPOSITORY, {})
        spark_operator = images.build_spark_operator_image(SPARK_IMAGE)
        ours.result()
    return [OPERATOR_IMAGE, SPARK_IMAGE, spark_operator]


def write_sboms() -> list[Path]:
    """Build all images, and list what is in each: build/sbom/<image>.cdx.json."""
    return [sbom.write(image, REPOSITORY / "build" / "sbom") for image in images.export(build_images())]


def start(nodes: int, disk_gib: int | None = None, clocks_for: str | None = None) -> None:
    """A fresh cluster with all images in it; what an earlier run left is removed first.

    ``disk_gib``, ``clocks_for``: as for `up`. Images are built while the control plane starts, and while the first run
    compiles the cluster's programs: they wait for the network most of their time.
    """
    with ThreadPoolExecutor(1) as pool:
        built = pool.submit(lambda: images.export(build_images()))
        # Kubeflow's operator first: its image waits for it.
        binaries.ensure((binaries.SPARK_OPERATOR, *binaries.CLUSTER_COMPONENTS))
        cluster.up(nodes, images=built.result, disk_gib=disk_gib, clocks_for=clocks_for)
    use_embedded_cluster()


def install_operators(job_namespace: str, values: dict[str, str]) -> None:
    """Install both charts with helm and wait until their pods are ready. ``values`` are set on our chart."""
    with ThreadPoolExecutor(1) as pool:
        ours = pool.submit(install_colocation, values)
        _install_spark_operator(job_namespace)
        ours.result()


def install_colocation(values: dict[str, str]) -> None:
    """``helm upgrade --install`` our chart, and wait."""
    repository, _, tag = OPERATOR_IMAGE.rpartition(":")
    chosen = {"image.repository": repository, "image.tag": tag, "spark.image": SPARK_IMAGE, **SHARED_DISK, **values}
    _helm_install("colocation", CHART, OPERATOR_NAMESPACE, chosen)


def uninstall_colocation() -> None:
    """``helm uninstall`` our chart."""
    run(["helm", "uninstall", "colocation", "--namespace", OPERATOR_NAMESPACE, "--wait"])


def _install_spark_operator(job_namespace: str) -> None:
    registry, _, rest = images.SPARK_OPERATOR_IMAGE.partition("/")
    repository, _, tag = rest.rpartition(":")
    kubectl("apply", "-f", "-", stdin=f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {job_namespace}}}\n")
    _helm_install("spark-operator", binaries.spark_operator_chart(), SPARK_OPERATOR_NAMESPACE, {
        "image.registry": registry, "image.repository": repository, "image.tag": tag,
        "spark.jobNamespaces": f"{{{job_namespace}}}", "webhook.enable": "false", "controller.workers": "2",
        # spark-submit, which it runs for each application, ends before optimised code would pay.
        "controller.env[0].name": "JAVA_TOOL_OPTIONS", "controller.env[0].value": QUICK_JAVA,
    })


def _helm_install(release: str, chart: Path, namespace: str, values: dict[str, str]) -> None:
    settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    run(["helm", "upgrade", "--install", release, str(chart), "--namespace", namespace, "--create-namespace",
         "--wait", "--timeout", "5m", *settings])
