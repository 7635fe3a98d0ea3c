"""The operator's settings: one environment variable each, read once at the start."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, Json, ValidationError

from ..common.logs import LogFormat
from ..manifests.clone_job import DEFAULT_RESOURCES, CloneJobSettings, Resources
from ..manifests.holder_pod import DEFAULT_GRACE_SECONDS, HolderSettings
from ..model.base import Frozen
from ..model.clone import MIN_CLONE_MIB_PER_SECOND, CloneBandwidth
from ..model.credentials import DAY_SECONDS, DEFAULT_LIFETIME_SECONDS, MIN_LIFETIME_SECONDS
from ..model.names import AGENT_ACCOUNT, DEFAULT_DATA_ROOT, TOKEN_DIRECTORY
from ..model.snapshot import Limits
from ..reconcile.certificates import CertificatePolicy
from ..reconcile.policy import Policy

PREFIX = "COLOCATION_"


class SettingsError(Exception):
    """An environment variable is missing or has a value that is not allowed."""


class Settings(Frozen):
    """Field ``data_root`` is read from ``COLOCATION_DATA_ROOT``, and so on."""

    namespace: str = Field(min_length=1, description="The operator's own: agents and clone Jobs are there.")
    image: str = Field(min_length=1, description="Of clone Jobs and holder pods: the operator's own.")
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: str = Field("", description="Names, separated by commas.")
    data_root: str = DEFAULT_DATA_ROOT
    ca_config_map: str = "colocation-agent-ca"
    clone_service_account: str = "colocation-clone"
    clone_user_id: int = Field(0, ge=0)
    holder_grace_seconds: int = Field(
        DEFAULT_GRACE_SECONDS, ge=1, description="An evicted holder pod stays for so long at most."
    )
    holder_priority_class: str = Field("", description="Of holder pods.")
    service_account: str = Field("colocation-operator", description="The operator's own; its tokens go to agents.")
    token_directory: str = Field(
        TOKEN_DIRECTORY, description="With ca.crt of the agents, and a token for those of the release before."
    )
    agent_account: str = Field(AGENT_ACCOUNT, description="The agents' ServiceAccount.")
    signer_name: str = Field("", description="Of agents' certificates. Empty: their requests are not looked at.")
    authority_directory: str = Field(
        "", description="With tls.crt and tls.key of the CA. Empty: another controller signs what is approved."
    )
    certificate_days: float = Field(
        DEFAULT_LIFETIME_SECONDS / DAY_SECONDS, gt=0, description="The longest life of an agent's certificate."
    )
    spark_image: str = ""
    tolerated_taints: str = Field("", description="Keys, separated by commas: Nodes tainted so take new replicas.")
    disable_colocate_relocate: bool = False
    disable_colocate_balance: bool = False
    max_concurrent_clones_per_node: int = Field(2, ge=1)
    clone_deadline_seconds: int = Field(180, ge=1)
    clone_resources: Json[Resources] | None = Field(None, description="Of clone Jobs' pods, as JSON.")
    clone_max_seconds: int | None = Field(None, ge=1, description="A clone Job is ended after this long.")
    clone_mib_per_second_per_node: float | None = Field(
        None, ge=MIN_CLONE_MIB_PER_SECOND, description="What clones may write to a node, and read from it."
    )
    clone_mib_per_second_per_cluster: float | None = Field(
        None, ge=MIN_CLONE_MIB_PER_SECOND, description="What all clones may copy."
    )
    disk_headroom_fraction: float = Field(0.10, ge=0, lt=1)
    agent_grace_seconds: float = Field(30, ge=0)
    inventory_seconds: float = Field(5, gt=0, description="The longest time between two passes.")
    resync_seconds: float = Field(300, gt=0, description="Between full lists of all objects.")
    collect_seconds: float = Field(600, gt=0, description="Between collections of garbage.")
    garbage_grace_seconds: int = Field(21600, ge=0, description="Must exceed the longest load.")
    unknown_folder_seconds: float = Field(
        60, ge=0, description="How long a folder without a table, which no group knows to be dropped, waits."
    )
    max_unexplained_folders: int | None = Field(
        None, ge=0, description="Of these, so many are recycled within an hour; empty: a small share of all."
    )
    health_port: int = Field(8080, ge=1, le=65535)
    snapshot_port: int = Field(8082, ge=1, le=65535, description="On loopback only.")
    admin_api: bool = Field(True, description="Whether the admin API is served.")
    admin_port: int = Field(8444, ge=1, le=65535)
    admin_tls_directory: str = Field("", description="With tls.crt and tls.key. Empty: plain HTTP, on loopback only.")
    webhook_port: int = Field(9443, ge=1, le=65535)
    webhook_tls_directory: str = Field("", description="With tls.crt and tls.key. Empty: no webhooks are served.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: LogFormat = Field("text", description="text, or json: one object a line.")
    pod_name: str = Field("", description="Who holds the Lease, and speaks in Events; empty outside of a pod.")

    @property
    def limits(self) -> Limits:
        """The planner's part."""
        return Limits(
            disable_colocate_relocate=self.disable_colocate_relocate,
            disable_colocate_balance=self.disable_colocate_balance,
            max_concurrent_clones_per_node=self.max_concurrent_clones_per_node,
            disk_headroom_fraction=self.disk_headroom_fraction,
            clone_deadline_seconds=self.clone_deadline_seconds,
            clone_bandwidth=CloneBandwidth(
                per_node_mib_per_second=self.clone_mib_per_second_per_node,
                per_cluster_mib_per_second=self.clone_mib_per_second_per_cluster,
            ),
        )

    @property
    def taint_keys(self) -> frozenset[str]:
        """Of the taints that are tolerated."""
        return frozenset(_listed(self.tolerated_taints))

    @property
    def policy(self) -> Policy:
        """What decisions need of them."""
        return Policy(
            limits=self.limits,
            agent_grace_seconds=self.agent_grace_seconds,
            garbage_grace_seconds=self.garbage_grace_seconds,
            data_root=self.data_root,
            spark_image=self.spark_image or None,
            unknown_folder_seconds=self.unknown_folder_seconds,
            max_unexplained_folders=self.max_unexplained_folders,
        )

    @property
    def certificates(self) -> CertificatePolicy:
        """What is asked of agents' requests."""
        return CertificatePolicy(
            signer=self.signer_name,
            account=f"system:serviceaccount:{self.namespace}:{self.agent_account}",
            lifetime_seconds=max(int(self.certificate_days * DAY_SECONDS), MIN_LIFETIME_SECONDS),
        )

    @property
    def clone_jobs(self) -> CloneJobSettings:
        """What all clone Jobs share."""
        return CloneJobSettings(
            namespace=self.namespace,
            tolerated_taints=self.taint_keys,
            image=self.image,
            image_pull_policy=self.image_pull_policy,
            image_pull_secrets=_listed(self.image_pull_secrets),
            service_account=self.clone_service_account,
            ca_config_map=self.ca_config_map,
            data_root=self.data_root,
            user_id=self.clone_user_id,
            max_seconds=self.clone_max_seconds,
            resources=self.clone_resources or DEFAULT_RESOURCES,
        )

    @property
    def holders(self) -> HolderSettings:
        """What all holder pods share."""
        return HolderSettings(
            namespace=self.namespace,
            image=self.image,
            image_pull_policy=self.image_pull_policy,
            image_pull_secrets=_listed(self.image_pull_secrets),
            user_id=self.clone_user_id,
            grace_seconds=self.holder_grace_seconds,
            priority_class=self.holder_priority_class,
        )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def settings_from(environment: Mapping[str, str]) -> Settings:
    """The settings in these environment variables; others than ours are ignored, empty ones mean the default.

    Raises:
        SettingsError: naming each variable, what it holds, and what is wrong with that.
    """
    variables = {name: f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    given = {name: environment[variable] for name, variable in variables.items() if environment.get(variable)}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        problems = [f"{variables[str(one['loc'][0])]}={one['input']!r}: {one['msg']}" if one["type"] != "missing"
                    else f"{variables[str(one['loc'][0])]} is not set" for one in error.errors()]
        raise SettingsError("; ".join(problems)) from error
