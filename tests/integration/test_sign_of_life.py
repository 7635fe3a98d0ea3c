"""The operator's Lease read by anyone who may and may not, on a real API server."""

import datetime
import json

from colocation.model.names import LEASE_NAME

from .accounts import LAKE, SHOP, Account
from .control_plane import ControlPlane
from .objects import as_json

OPERATOR = "foreign-operator"
SQL = ("sql", "SELECT 1", "-n", LAKE, "--image", "spark:1", "--group", f"{SHOP}/sales", "--dry-run")

def ago(seconds: float) -> str:
    time = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def tell(cluster: ControlPlane, config_map: str, renewed_seconds_ago: float) -> None:
    """What the operator reports of itself in a group's ConfigMap."""
    sign = {"renewTime": ago(renewed_seconds_ago), "validSeconds": 600, "leaseNamespace": OPERATOR,
            "leaseName": LEASE_NAME}  # fmt: skip
    patch = as_json({"data": {"operator.json": json.dumps(sign)}})
    assert cluster.kubectl("patch", "configmap", config_map, "-n", LAKE, "--type=merge", "-p", patch).returncode == 0


def renew(cluster: ControlPlane, seconds_ago: float) -> None:
    """The operator's Lease, renewed so long ago."""
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE_NAME},
            "spec": {"holderIdentity": "one", "leaseDurationSeconds": 20, "renewTime": ago(seconds_ago)}}  # fmt: skip
    done = cluster.kubectl("apply", "-n", OPERATOR, "-f", "-", stdin=as_json(body))
    assert done.returncode == 0, done.stderr


def decision(account: Account) -> str:
    """The first line of what `colocation sql --dry-run` prints."""
    done = account.colocation(*SQL)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0]


def test_who_may_read_the_lease_goes_by_it(account: Account) -> None:
    """Without rights the ConfigMap's time counts; both by the API server's clock."""
    cluster, config_map = account.cluster, f"sales.{SHOP}-spark-shared"
    account.bind(LAKE, "colocation-user")
    account.bind(SHOP, "colocation-view")
    cluster.kubectl("create", "namespace", OPERATOR)
    try:
        assert decision(account) == "# colocate: true"
        tell(cluster, config_map, 30)
        renew(cluster, 3600)
        assert decision(account) == "# colocate: true"
        tell(cluster, config_map, 700)
        assert "OperatorSilent" in decision(account) and "(the group's ConfigMap)" in decision(account)
        cluster.kubectl("create", "role", "lease", "-n", OPERATOR, "--verb=get", "--resource=leases")
        cluster.kubectl("create", "rolebinding", "lease", "-n", OPERATOR, "--role=lease",
                        f"--serviceaccount={LAKE}:spark")  # fmt: skip
        assert f"(Lease {LEASE_NAME} of namespace {OPERATOR})" in decision(account)
        renew(cluster, 5)
        assert decision(account) == "# colocate: true"
    finally:
        cluster.kubectl("delete", "leases,roles,rolebindings", "--all", "-n", OPERATOR)
        cluster.kubectl("delete", "namespace", OPERATOR, "--wait=false")
