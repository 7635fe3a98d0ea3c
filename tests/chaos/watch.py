"""Watches the cluster: verdicts against what is on the disks, clones, memory; at the end, leftovers."""

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from colocation.model.agent import CloneProgress
from colocation.storage.clone_reports import PROGRESS_FILE
from demo import cluster
from demo import disks as node_disks

from . import cluster_view, scene
from .cluster_view import ApiAway
from .disks import ASIDE, Disks, unplaced
from .history import SEEN, Event, History
from .judge_rows import SETTLED
from .work import Work, is_where_it_should_be, stays_for_its_replicas

LOOK_SECONDS = 3.0
LOOKS_BETWEEN_MEMORY = 7


class Watch:
    """What is seen goes into the history; what is there is given to ``work``."""

    def __init__(self, history: History, disks: Disks, work: Work) -> None:
        self._history, self._disks, self._work = history, disks, work
        self._older: set[str] = set()

    def begin(self) -> None:
        """What is there before the run is not its own: folders of an earlier one, whose namespace was deleted."""
        self._older = {path.name for node in node_disks.nodes() for path in folders(node)}

    def run(self, stop: threading.Event) -> None:
        """Until ``stop``."""
        number = 0
        while not stop.wait(LOOK_SECONDS):
            try:
                self.look()
                if number % LOOKS_BETWEEN_MEMORY == 0:
                    killed = cluster_view.out_of_memory()
                    self._history.note("watch", SEEN, "memory", 0, bytes=cluster_view.memory(), killed=killed)
            except ApiAway:
                self._work.doubts.api_was_away()
                continue
            number += 1

    def look(self) -> Event:
        """One look at all groups.

        Raises:
            ApiAway: the API server does not answer.
        """
        asked_at = self._work.about_to_list()
        groups, tables = cluster_view.groups_and_tables()
        machinery, reachable = cluster_view.machinery(), cluster_view.reachable()
        self._work.sync(tables, groups, asked_at)
        if settled := self._work.doubts.settled(groups, tables, machinery.fresh):
            self._history.note("runner", SEEN, SETTLED, 0, numbers=settled)
        seen = {group["metadata"]["name"]: self._group(group, tables, reachable) for group in groups}
        self._history.note("watch", SEEN, "clones", 0, nodes=machinery.clones)
        return self._history.note(
            "watch", SEEN, "groups", 0, fresh=machinery.fresh, trouble=machinery.trouble, groups=seen
        )

    def _group(self, group: dict[str, Any], tables: list[dict[str, Any]], reachable: Iterable[str]) -> dict[str, Any]:
        status = group.get("status", {})
        placed = [table for table in tables if table.get("status", {}).get("group") == group["metadata"]["name"]]
        conditions = {one["type"]: one for one in status.get("conditions", ())}
        missing = self._disks.missing(group, placed, reachable)
        return {"stable": bool(status.get("stable")), "reason": status.get("reason", ""),
                "message": conditions.get("Stable", {}).get("message", ""), "missing": missing[:20],
                "unplaced": unplaced(group), "clones": status.get("clones", {})}  # fmt: skip

    def problems(self) -> list[str]:
        """Why all is not well at this moment."""
        try:
            event = self.look()
            groups, tables = cluster_view.groups_and_tables()
        except ApiAway as error:
            return [f"the API server is away: {error}"]
        found = list(event.detail["trouble"])
        found += [] if event.detail["fresh"] else ["the operator's Lease is not renewed"]
        for name, group in event.detail["groups"].items():
            if not group["stable"]:
                found.append(f"group {name} is not stable: {group['reason']}: {group['message']}")
            found += [f"group {name} lacks {missing}" for missing in lacking(group)[:3]]
        for table in tables:
            status = table.get("status", {})
            if stays_for_its_replicas(table, groups):
                continue
            if not status.get("accepted"):
                said = next((one["message"] for one in status.get("conditions", ()) if one["type"] == "Accepted"), "")
                found.append(f"table {table['metadata']['name']} is not accepted: {said}")
            elif not is_where_it_should_be(table):
                found.append(f"table {table['metadata']['name']} is in group {status.get('group')}")
        return found

    def last_look(self) -> list[str]:
        """What is missing on the disks, by the content of every file, or in the maps.

        Raises:
            ApiAway: the API server does not answer.
        """
        self._disks.is_thorough = True
        return [text for group in self.look().detail["groups"].values() for text in lacking(group)]

    def leftovers(self, restored: bool) -> list[str]:
        """What should not be there when all is well. ``restored``: etcd was, so folders that no one knows may stay."""
        groups, tables = cluster_view.groups_and_tables()
        names = {group["metadata"]["name"] for group in groups}
        maps = cluster_view.get("configmaps", "-n", scene.NAMESPACE)
        found = [
            f"ConfigMap {one['metadata']['name']}" for one in maps
            if one["metadata"]["name"].endswith("-spark")
            and one["metadata"]["name"].removesuffix("-spark") not in names
        ]  # fmt: skip
        jobs = cluster_view.get("jobs", "-n", cluster.OPERATOR_NAMESPACE)
        found += [f"Job {job['metadata']['name']}" for job in jobs if not cluster_view.is_over(job)]
        found += self._orphans(cluster_view.get("pods", "-n", scene.NAMESPACE))
        for node in sorted(cluster_view.reachable()):
            aside = node_disks.data_root(node).with_name(ASIDE)
            found += [f"{node}: {path.name} was not put back" for path in sorted(aside.glob("*"))]
            clones = node_disks.data_root(node) / ".incoming" / "clones"
            found += [f"{node}: {path}" for path in sorted(clones.glob("*")) if is_finished(path)]
            found += [] if restored else self._unknown_folders(node, groups, tables)
        return found

    @staticmethod
    def _orphans(pods: list[dict[str, Any]]) -> list[str]:
        """Executors whose driver is gone."""
        there = {pod["metadata"]["uid"] for pod in pods}
        drivers = [
            (pod["metadata"]["name"], owner["uid"])
            for pod in pods
            for owner in pod["metadata"].get("ownerReferences", ())
            if owner["kind"] == "Pod"
        ]
        return [f"pod {name}, whose driver is gone" for name, driver in drivers if driver not in there]

    def _unknown_folders(self, node: str, groups: list[dict[str, Any]], tables: list[dict[str, Any]]) -> list[str]:
        """Folders of tables that are not there: they belong into the recycle bin."""
        known = {self._disks.folder(node, table) for table in tables}
        unknown = [path.name for path in folders(node) if path not in known and path.name not in self._older]
        return [f"{node}: {name} of no table" for name in unknown]


def lacking(group: Mapping[str, list[str]]) -> list[str]:
    """What a group that was looked at lacks, though it may be stable without some of it."""
    return [*group["missing"], *group["unplaced"]]


def is_finished(clone: Path) -> bool:
    """Whether all that a clone's folder was for has arrived. One that was given up stays for a day: it is resumed.

    Until a clone knows what it lacks, it reports 0 of 0 bytes.
    """
    try:
        progress = CloneProgress.model_validate_json((clone / PROGRESS_FILE).read_text())
    except (FileNotFoundError, ValueError):  # no one syncs it: a disk that failed may have it empty
        return False
    return 0 < progress.bytes_total <= progress.bytes_done


def folders(node: str) -> list[Path]:
    """The folders of tables on a node."""
    folder = node_disks.data_root(node) / scene.NAMESPACE
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
