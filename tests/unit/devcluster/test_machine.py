"""Which machines images are made on, and what their packages are called."""

import pytest

from devcluster import machine
from devcluster.errors import DevclusterError

DOCKERFILE = "FROM ${BASE}\nRUN apt-get install --yes openjdk-17-jre-headless tini\n"


@pytest.mark.parametrize(("codename", "java"), [
    pytest.param("bookworm", "openjdk-17-jre-headless", id="Debian 12"),
    pytest.param("trixie", "openjdk-21-jre-headless", id="Debian 13"),
    pytest.param("noble", "openjdk-17-jre-headless", id="Ubuntu 24.04"),
])  # fmt: skip
def test_dockerfiles_name_packages_that_are_there(codename: str, java: str) -> None:
    """Debian 13 has no Java 17."""
    adapted = machine.release({"VERSION_CODENAME": codename}).with_its_packages(DOCKERFILE)
    assert adapted == f"FROM ${{BASE}}\nRUN apt-get install --yes {java} tini\n"


def test_another_release_is_refused_by_name() -> None:
    """What it is, and what would do."""
    facts = {"PRETTY_NAME": "Fedora Linux 43", "ID": "fedora"}
    with pytest.raises(DevclusterError, match=r"is Fedora Linux 43; .*Debian 12 or 13 .*Ubuntu 24\.04.*KUBECONFIG"):
        machine.release(facts)


@pytest.mark.parametrize(("kernels", "images"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_processors(kernels: str, images: str) -> None:
    """The kernel's name of a processor, and that of images."""
    assert machine.architecture(kernels) == images


def test_another_processor_is_refused_by_name() -> None:
    """What it is, and what would do."""
    with pytest.raises(DevclusterError, match="riscv64; x86_64 and aarch64 are supported"):
        machine.architecture("riscv64")
