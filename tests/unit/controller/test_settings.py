"""The operator's environment variables."""

import pytest

from colocation.controller.settings import Settings, SettingsError, settings_from

REQUIRED = {"COLOCATION_NAMESPACE": "system", "COLOCATION_IMAGE": "operator:1"}


def test_defaults_and_values() -> None:
    """What is not set, or set to nothing, has its default; the rest is read as its type."""
    settings = settings_from({
        **REQUIRED, "COLOCATION_DISABLE_COLOCATE_BALANCE": "true", "COLOCATION_AGENT_GRACE_SECONDS": "2.5",
        "COLOCATION_DATA_ROOT": "", "COLOCATION_IMAGE_PULL_SECRETS": "one, two", "HOME": "/root",
        "COLOCATION_CLONE_RESOURCES": '{"limits":{"cpu":2,"memory":"1Gi"}}', "COLOCATION_CLONE_MAX_SECONDS": "7",
    })  # fmt: skip
    assert settings == Settings(
        namespace="system", image="operator:1", disable_colocate_balance=True, agent_grace_seconds=2.5,
        image_pull_secrets="one, two", clone_max_seconds=7,
        clone_resources='{"limits": {"cpu": 2, "memory": "1Gi"}}',
    )  # fmt: skip
    assert settings.limits.disable_colocate_balance
    assert settings.clone_jobs.image_pull_secrets == ("one", "two")
    assert settings.clone_jobs.data_root == "/var/lib/colocation"
    assert settings.clone_jobs.resources == {"limits": {"cpu": 2, "memory": "1Gi"}}
    assert Settings(namespace="system", image="operator:1").clone_jobs.resources["limits"] == {"memory": "512Mi"}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"COLOCATION_IMAGE": "operator:1"}, "COLOCATION_NAMESPACE is not set"),
        ({**REQUIRED, "COLOCATION_HEALTH_PORT": "80k"}, "COLOCATION_HEALTH_PORT='80k': Input should be a valid"),
        ({**REQUIRED, "COLOCATION_CLONE_RESOURCES": "{"}, "COLOCATION_CLONE_RESOURCES='{': Invalid JSON"),
        ({**REQUIRED, "COLOCATION_AGENT_GRACE_SECONDS": "-1"}, "COLOCATION_AGENT_GRACE_SECONDS='-1': Input should be"),
    ],
)
def test_wrong_settings_are_named(environment: dict[str, str], message: str) -> None:
    """The variable, what it holds, and what is wrong with that."""
    with pytest.raises(SettingsError) as error:
        settings_from(environment)
    assert message in str(error.value)
