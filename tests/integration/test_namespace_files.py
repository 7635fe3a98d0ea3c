"""Volumes and claims of namespaces' files on a real API server: Pod Security, the chart's policies, the writer."""

import json
from collections.abc import AsyncIterator, Iterator

import pytest
from kubernetes.aio import client, config

from colocation.kube.api import CLAIMS, VOLUMES, Api, Resource
from colocation.kube.errors import Refused
from colocation.kube.writer import LiveWriter
from colocation.manifests.data_volume import data_claim, data_volume
from colocation.manifests.spark_pods import SparkPlacement, driver_pod_template, executor_pod_template
from colocation.model.names import DATA_CLAIM, DEFAULT_DATA_ROOT, data_volume_name
from colocation.reconcile.actions import CreateDataClaim, CreateDataVolume, DeleteDataClaim
from colocation.state.parse import parse_claim, parse_volume
from tests.support.waiting import until

from .charts import SYSTEM, rendered
from .control_plane import ControlPlane, running_control_plane
from .objects import JsonObject, as_json

SHOP, CROWDED = "shop", "crowded"
TENANT = "a-tenant"
OPERATOR = f"system:serviceaccount:{SYSTEM}:colocation-operator"
QUOTA = {
    "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": CROWDED},
    "spec": {"hard": {"persistentvolumeclaims": "0"}}, "status": {"hard": {"persistentvolumeclaims": "0"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """The chart's rights and policies; a tenant with the rights of `edit` in a namespace that enforces *restricted*."""
    with running_control_plane() as own:
        for name in (SYSTEM, SHOP, CROWDED):
            assert own.kubectl("create", "namespace", name).returncode == 0
        own.kubectl("label", "namespace", SHOP, "pod-security.kubernetes.io/enforce=restricted")
        kinds = ("ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        for item in rendered(*kinds):
            done = own.kubectl("create", "-f", "-", stdin=as_json(item))
            assert done.returncode == 0, done.stderr
        role = "system:aggregate-to-edit"  # no controller runs that would fill the role edit
        own.kubectl("create", "rolebinding", "tenant", "-n", SHOP, f"--clusterrole={role}", f"--user={TENANT}")
        writing = pod(volumes=[claim_volume(read_only=False)])
        elsewhere = data_volume(SHOP, "/etc", "uid")
        until(lambda: objection(own, TENANT, writing) and objection(own, OPERATOR, elsewhere))
        yield own


def claim_volume(claim: str = DATA_CLAIM, **fields: object) -> JsonObject:
    """A volume with a claim; ``read_only`` is left out unless given."""
    read_only = {"readOnly": fields["read_only"]} if "read_only" in fields else {}
    return {"name": "files", "persistentVolumeClaim": {"claimName": claim, **read_only}}


def pod(template: JsonObject | None = None, **spec: object) -> JsonObject:
    """A pod of one container, as *restricted* as an executor's; ``spec`` replaces fields."""
    template = template or executor_pod_template(SparkPlacement(namespace=SHOP, group="sales"))
    of_template = template["spec"]
    containers = [{**one, "image": "spark:1", "volumeMounts": []} for one in of_template["containers"]]
    if not spec:
        containers = [{**one, "image": "spark:1"} for one in of_template["containers"]]
    labels = template["metadata"]["labels"]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": SHOP, "labels": labels},
        "spec": {**of_template, "serviceAccountName": "spark", "containers": containers, **spec},
    }  # fmt: skip


def mounting(**mount: str) -> JsonObject:
    """Fields of a pod that mounts its namespace's files."""
    container = pod()["spec"]["containers"][0]
    mounts = [{"name": "files", "mountPath": "/files", **mount}]
    return {"volumes": [claim_volume(read_only=True)], "containers": [{**container, "volumeMounts": mounts}]}


def objection(plane: ControlPlane, user: str, body: JsonObject, *command: str) -> str:
    """Why the API server does not take an object from this user; empty when it would."""
    done = plane.kubectl(*(command or ("create", "--dry-run=server")), "--as", user, "-f", "-", stdin=as_json(body))
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("template", [executor_pod_template, driver_pod_template], ids=["executor", "driver"])
def test_sparks_pods_are_taken_where_restricted_is_enforced(plane: ControlPlane, template: object) -> None:
    """By Kubernetes' own check, and by the chart's policies; a hostPath would not be."""
    made = template(SparkPlacement(namespace=SHOP, group="sales", has_map=True))  # type: ignore[operator]
    assert objection(plane, TENANT, pod(made)) == ""
    mounted = {"name": "files", "hostPath": {"path": DEFAULT_DATA_ROOT}}
    assert "restricted" in objection(plane, TENANT, pod(made, volumes=[mounted]))


REFUSED = [
    pytest.param({"volumes": [claim_volume(read_only=False)]}, "add persistentVolumeClaim.readOnly", id="written"),
    pytest.param({"volumes": [claim_volume()]}, "add persistentVolumeClaim.readOnly: true", id="nothing said"),
    pytest.param(mounting(subPath="made-by-root"), "mount the whole volume", id="subPath"),
    pytest.param(mounting(subPathExpr="$(HOME)"), "mount the whole volume", id="subPathExpr"),
]


@pytest.mark.parametrize(("spec", "said"), REFUSED)
def test_files_are_read_only(plane: ControlPlane, spec: JsonObject, said: str) -> None:
    """Anyone who makes the pod, and in whichever container it is mounted."""
    assert said in objection(plane, TENANT, pod(**spec))
    assert said in plane.kubectl("create", "-f", "-", stdin=as_json(pod(**spec))).stderr


def test_init_containers_are_held_to_the_same(plane: ControlPlane) -> None:
    """They run before all others and mount the same volumes."""
    fields = mounting(subPath="x")
    [container] = fields["containers"]
    init = {**container, "name": "init"}
    body = pod(volumes=fields["volumes"], initContainers=[init], containers=[{**container, "volumeMounts": []}])
    assert "mount the whole volume" in objection(plane, TENANT, body)


def test_a_pods_own_claim_does_not_take_the_name(plane: ControlPlane) -> None:
    """An ephemeral volume's claim is named after pod and volume, and is mounted for writing."""
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    body = pod(volumes=[{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}])
    assert objection(plane, TENANT, body) == ""
    body["metadata"]["name"] = "colocation"
    assert "give the pod or the volume another name" in objection(plane, TENANT, body)


def test_other_claims_are_everybodys_own(plane: ControlPlane) -> None:
    """Written, with a subPath, next to ours."""
    fields = mounting()
    fields["volumes"].append({"name": "mine", "persistentVolumeClaim": {"claimName": "mine"}})
    mounts = [*fields["containers"][0]["volumeMounts"], {"name": "mine", "mountPath": "/mine", "subPath": "x"}]
    fields["containers"][0]["volumeMounts"] = mounts
    assert objection(plane, TENANT, pod(**fields)) == ""


def test_the_operator_makes_volumes_of_its_data_root_only(plane: ControlPlane) -> None:
    """With the right to make volumes it could else have any folder of any node; and it deletes no one else's."""
    assert objection(plane, OPERATOR, data_volume(SHOP, DEFAULT_DATA_ROOT, "uid")) == ""
    wrong = data_volume(SHOP, DEFAULT_DATA_ROOT, "uid")
    wrong["spec"]["claimRef"]["namespace"] = CROWDED
    unreserved = data_volume(SHOP, DEFAULT_DATA_ROOT, "uid")
    del unreserved["spec"]["claimRef"]
    for body in (data_volume(SHOP, "/etc", "uid"), unreserved, wrong):
        assert "below /var/lib/colocation only" in objection(plane, OPERATOR, body)
    foreign = data_volume("theirs", "/srv", "uid")
    del foreign["metadata"]["labels"]
    assert "of its own only" in objection(plane, OPERATOR, foreign)
    plane.kubectl("create", "-f", "-", stdin=as_json(foreign))
    assert "of its own only" in objection(plane, OPERATOR, foreign, "delete", "--wait=false")
    assert plane.kubectl("delete", "pv", data_volume_name("theirs"), "--wait=false").returncode == 0


def test_the_operator_deletes_its_own_claims_only(plane: ControlPlane) -> None:
    """By the name, which the right holds."""
    other = data_claim(SHOP)
    other["metadata"]["name"] = "theirs"
    plane.kubectl("create", "-f", "-", stdin=as_json(other))
    assert "forbidden" in objection(plane, OPERATOR, other, "delete", "--wait=false")


class Written:
    """The writer, as the operator's account, with what it was given."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.taken: list[tuple[Resource, JsonObject]] = []
        self.live = LiveWriter(api, None, None, None, None, lambda *it: self.taken.append(it))  # type: ignore[arg-type]

    async def claim(self) -> JsonObject:
        return await self.api.get(CLAIMS, SHOP, DATA_CLAIM)


@pytest.fixture
async def written(plane: ControlPlane) -> AsyncIterator[Written]:
    configuration = client.Configuration()
    await config.load_kube_config(str(plane.kubeconfig), client_configuration=configuration)
    connection = client.ApiClient(configuration)
    connection.set_default_header("Impersonate-User", OPERATOR)
    api = Api(connection)
    yield Written(api)
    await api.close()


async def test_what_is_made_is_parsed_as_it_was_meant(written: Written) -> None:
    """Made twice it stays the same; a claim that is made again is another one, and no one's volume is for it."""
    for _ in range(2):
        await written.live.perform(CreateDataClaim(SHOP))
    [first, second] = [parse_claim(body) for resource, body in written.taken if resource == CLAIMS]
    assert first == second and first.is_ours and first.volume == ""
    for _ in range(2):
        await written.live.perform(CreateDataVolume(SHOP, DEFAULT_DATA_ROOT, first.identity.uid))
    [volume, again] = [parse_volume(body) for resource, body in written.taken if resource == VOLUMES]
    assert volume == again
    assert (volume.namespace, volume.path) == (SHOP, f"{DEFAULT_DATA_ROOT}/{SHOP}")
    assert volume.claim_uid == first.identity.uid
    await written.live.perform(DeleteDataClaim(first.identity))
    assert parse_claim(await written.claim()).identity.deleting, "it stays until no pod uses it"


async def test_a_name_that_is_taken_is_learnt(written: Written, plane: ControlPlane) -> None:
    """No watch of ours shows what lacks our labels."""
    foreign = data_volume("lent", "/srv", "uid")
    foreign["metadata"]["labels"] = {"team": "storage"}
    plane.kubectl("create", "-f", "-", stdin=as_json(foreign))
    await written.live.perform(CreateDataVolume("lent", DEFAULT_DATA_ROOT, "uid"))
    [(resource, body)] = written.taken
    assert resource == VOLUMES and parse_volume(body).namespace == ""
    found = json.loads(plane.kubectl("get", "pv", data_volume_name("lent"), "-o", "json").stdout)
    assert found["spec"]["hostPath"]["path"] == "/srv/lent"


async def test_a_quota_refuses(written: Written, plane: ControlPlane) -> None:
    """That is said as what does not pass by itself."""
    plane.kubectl("create", "-f", "-", stdin=as_json(QUOTA))
    patch = as_json({"status": {"hard": {"persistentvolumeclaims": "0"}, "used": {"persistentvolumeclaims": "0"}}})
    plane.kubectl("patch", "quota", "none", "-n", CROWDED, "--subresource=status", "--type=merge", "-p", patch)
    with pytest.raises(Refused, match="exceeded quota"):
        for _ in range(20):  # the admission plugin hears of the quota by its own watch
            await written.live.perform(CreateDataClaim(CROWDED))
            plane.kubectl("delete", "pvc", DATA_CLAIM, "-n", CROWDED, "--wait=false")
            patch = as_json({"metadata": {"finalizers": None}})
            plane.kubectl("patch", "pvc", DATA_CLAIM, "-n", CROWDED, "--type=merge", "-p", patch)
