"""A table of a group of another namespace, seen with the chart's rights only."""

import yaml

from colocation.model.names import config_map_of

from .accounts import LAKE, SHOP, Account


def test_a_foreign_group_is_read_with_the_view_role(account: Account) -> None:
    """Without it the command names what to ask for; with it jobs are of the table's namespace, not of the group's."""
    account.bind(LAKE, "colocation-user")
    options = ("-n", LAKE, "--image", "spark:1", "--dry-run")
    load = ("load", "clicks", "--from", "s3a://lake/clicks", *options)
    denied = account.colocation(*load)
    assert denied.returncode == 1
    assert f"group 'sales' in namespace '{SHOP}': ask for the ClusterRole colocation-view there" in denied.stderr

    account.bind(SHOP, "colocation-view")
    for command in (load, ("compact", "clicks", *options)):
        done = account.colocation(*command)
        assert done.returncode == 0, done.stderr
        application = yaml.safe_load(done.stdout)
        assert application["metadata"]["namespace"] == LAKE
        assert application["metadata"]["labels"] == {
            "colocation.dev/group": "sales", "colocation.dev/group-namespace": SHOP,
        }  # fmt: skip
        assert application["spec"]["arguments"][:3] == ["clicks", "--namespace", LAKE]
        assert config_map_of(LAKE, (SHOP, "sales")) in done.stdout
