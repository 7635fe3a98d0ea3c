"""The administrator after a loss of objects: `colocation adopt --yes`, with the code that decides it."""

import asyncio
from typing import TYPE_CHECKING, Any

from colocation.agentclient import NotFound, Unreachable
from colocation.controller.folders import folder_paths, folders_found, look_into
from colocation.controller.leadership import LEASES
from colocation.kube.api import GROUPS, TABLES, Conflict
from colocation.manifests.recovered_table import adopted_table, adopting_group
from colocation.model.adoption import Folders
from colocation.model.agent import FolderManifests, ManifestSummary, RecycledSchema, TableReference, TableReport
from colocation.model.names import ANNOTATION_ADOPTS, ANNOTATION_ETCD_RESTORED, LEASE_NAME
from colocation.model.salvage import salvage
from colocation.model.table import ColocatedTableSpec, ColocatedTableStatus, Column, retained_history
from colocation.reconcile.adoption import AdoptionStep, Does, adoption_steps, replicas_of
from colocation.state.assemble import assemble

from .agents import AgentProcess
from .world import OPERATOR_NAMESPACE, World, directory_of

if TYPE_CHECKING:
    from .operators import SimulatedOperator

SECONDS_BETWEEN_RUNS = 60.0
COLUMNS = (Column(name="key", type="bigint"),)


class _Agent:
    """What the command asks of one agent, by way of the operator."""

    def __init__(self, world: World, agent: AgentProcess) -> None:
        self._world = world
        self._agent = agent

    def manifests(self, namespace: str, directory: str) -> FolderManifests:
        key, disk = (namespace, directory), self._agent.disk
        folders = [disk.folders[key]] if key in disk.folders else []
        folders += [disk.bin[key].folder] if key in disk.bin else []
        found = {digest for folder in folders for digest in folder.manifests}
        return FolderManifests(manifests=tuple(self._summary(directory, digest) for digest in sorted(found)))

    def _summary(self, directory: str, digest: str) -> ManifestSummary:
        number, written_at = self._world.written[digest]
        files = self._world.manifest(digest)
        schema = RecycledSchema(columns=COLUMNS, bucketed_by=("key",), buckets=self._world.buckets_of[digest])
        return ManifestSummary(
            sha256=digest, table=directory.rpartition("-")[0], uid="", snapshot_id=number, partitions=1,
            files=len(files), rows=len(files), bytes=sum(file.size_bytes for file in files), modified_at=written_at,
            table_schema=schema,
        )  # fmt: skip

    def verify(self, namespace: str, directory: str, manifest: str) -> TableReport:
        report = self._agent.disk.report(TableReference(namespace=namespace, directory=directory, manifest=manifest))
        if not report.manifest_present:
            raise NotFound(404, "ManifestMissing", "it is in the bin")
        return report

    def close(self) -> None:
        """Nothing is open."""


class Administrator:
    """Runs `colocation adopt -A --yes` now and then, from the moment when etcd was restored."""

    def __init__(self, world: World, operators: "list[SimulatedOperator]") -> None:
        self._world = world
        self._operators = operators
        self.is_needed = False

    async def live(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_RUNS)
            if self.is_needed:
                self.adopt()

    def adopt(self, *, recycled: bool = False) -> list[AdoptionStep]:
        """Carry out what can be done now; what that was. Nothing while no operator leads or agents do not answer."""
        operator = next((one for one in self._operators if one.is_leading and one.last), None)
        found = self._look(operator) if operator else None
        if found is None:
            return []
        steps = adoption_steps(found, recycled=recycled)
        todo = [one for one in steps if one.does]
        for step in todo:
            self._carry_out(step, steps)
        for step in steps:
            if step.table and step.table.adopts and not step.table.snapshot and not step.does:  # nothing was committed
                self._world.note(f"the administrator: delete table {step.folder.path}")
                self._world.api.remove(TABLES, step.table.namespace, step.table.name)
        if found.etcd_restored and not todo:
            self._world.note("the administrator: etcd is accepted as it is")
            mark = {"metadata": {"annotations": {ANNOTATION_ETCD_RESTORED: None}}}
            self._world.api.merge(LEASES, OPERATOR_NAMESPACE, LEASE_NAME, mark)
        return todo

    def _look(self, operator: "SimulatedOperator") -> Folders | None:
        assert operator.last is not None
        cluster = assemble(operator.last.observation)
        paths = folder_paths(cluster)
        try:
            folders = tuple(look_into(cluster, path, paths[path], self._connect) for path in sorted(paths))
        except Unreachable:
            return None
        return folders_found(cluster, folders)

    def _connect(self, url: str) -> Any:
        agent = self._world.network.agent_at(url)
        if agent is None or agent.node in self._world.network.cut | self._world.network.mute:
            raise Unreachable(f"no connection to {url}")
        return _Agent(self._world, agent)

    def _carry_out(self, step: AdoptionStep, steps: list[AdoptionStep]) -> None:
        api, namespace, name = self._world.api, step.folder.namespace, step.folder.table
        table = api.find(TABLES, namespace, name)
        if (table is None) is not (step.does is Does.CREATE) or step.does is Does.WAIT:
            return
        self._world.note(f"the administrator: {step.does} {step.folder.path}")
        if table is None:
            if api.find(GROUPS, namespace, step.group) is None:
                api.add(GROUPS, namespace, adopting_group(namespace, step.group, step.schema, replicas_of(step, steps)))
            api.add(TABLES, namespace, adopted_table(step.folder, step.schema, step.group))
        elif step.does is Does.TAKE_OVER:
            patch = {"metadata": {"annotations": {ANNOTATION_ADOPTS: step.folder.uid_digits}}}
            api.merge(TABLES, namespace, name, patch)
        elif step.table is not None and directory_of(table) == step.table.directory:
            self._commit(table, step)

    def _commit(self, table: dict[str, Any], step: AdoptionStep) -> None:
        assert step.chosen is not None and step.table is not None
        status, problem = salvage(ColocatedTableStatus, table.get("status", {}))
        known = step.table.snapshot.manifest if step.table.snapshot else None
        if problem or (status.snapshot and status.snapshot.manifest != known):
            return
        spec, replaced = ColocatedTableSpec.model_validate(table["spec"]), (status.snapshot,) if status.snapshot else ()
        snapshot, now = step.chosen.snapshot, self._world.api_wall.now()
        history = retained_history(snapshot, replaced + status.history, spec.retention, now)
        patch = {
            "metadata": {"resourceVersion": table["metadata"]["resourceVersion"]},
            "status": {"snapshot": snapshot.to_json_dict(), "history": [one.to_json_dict() for one in history]},
        }
        try:
            self._world.api.merge(TABLES, step.folder.namespace, step.folder.table, patch, "status")
        except Conflict:
            return
