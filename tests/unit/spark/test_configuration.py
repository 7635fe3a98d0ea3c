"""What a session is given, and switches with values that are not allowed."""

from types import SimpleNamespace

import pytest

from colocation.manifests.spark_pods import SparkPlacement, spark_defaults
from colocation.spark import configuration
from colocation.spark.configuration import JarMissing, SessionSettings, spark_conf


def settings(**conf: str) -> SessionSettings:
    values = {f"spark.colocation.{key}": value for key, value in conf.items()}
    return SessionSettings.of(SimpleNamespace(conf=SimpleNamespace(get=values.get)))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _jar(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(configuration, "jar_path", lambda: tmp_path / "colocation-spark.jar")


def test_a_session_gets_what_the_config_map_has() -> None:
    """A session made by ``configure`` and one made from the ConfigMap's spark-defaults.conf plan alike."""
    defaults = spark_defaults(SparkPlacement(namespace="shop", group="sales"))
    ours = spark_conf(namespace="shop", data_root=defaults["spark.colocation.dataRoot"])
    assert {key: ours.get(key) for key in defaults if not key.startswith("spark.kubernetes.")} == {
        key: value for key, value in defaults.items() if not key.startswith("spark.kubernetes.")
    }


def test_what_is_not_given_is_not_overruled() -> None:
    """A data root from spark-defaults.conf stays when the program does not name one."""
    assert not [key for key in spark_conf() if key.startswith("spark.colocation.")]


def test_a_misspelt_setting_is_an_error() -> None:
    """What is not understood is never taken for its default. (Switches of reading are the catalog's.)"""
    with pytest.raises(ValueError, match="allowed: whole seconds, 0 or more"):
        settings(retrySeconds="-1")


def test_a_namespace_must_come_from_somewhere() -> None:
    """The call's namespace wins over the session's; neither is an error with what to do."""
    assert settings(namespace="shop").namespace_or(None) == "shop"
    assert settings(namespace="shop").namespace_or("other") == "other"
    with pytest.raises(ValueError, match=r"set spark\.colocation\.namespace"):
        settings().namespace_or(None)


def test_a_missing_jar_shows_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """In a fresh checkout the error names the command."""
    monkeypatch.undo()
    monkeypatch.setattr(configuration.resources, "files", lambda package: tmp_path)
    with pytest.raises(JarMissing, match="scripts/build-jar"):
        configuration.jar_path()
