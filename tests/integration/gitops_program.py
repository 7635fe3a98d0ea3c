"""``gitops_program.py <folder>``: the health of objects by the checks for Argo CD and Flux in examples/gitops.

It needs Lua and CEL, reads a list of objects, and prints a list of ``[Argo CD's status, its message, Flux's status]``.
"""

import json
import sys
from pathlib import Path
from typing import Any

import celpy
import lupa
import yaml


def argo(checks: dict[str, str], item: dict[str, Any]) -> list[str]:
    """Argo CD runs the text of the kind's key as the body of a function of ``obj``."""
    name = f"{item['apiVersion'].split('/')[0]}_{item['kind']}"
    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    check = lua.execute(f"return function(obj) {checks[f'resource.customizations.health.{name}']} end")
    found = check(lua.table_from(item, recursive=True))
    return [found.status, found.message]


def flux(checks: list[dict[str, str]], item: dict[str, Any]) -> str:
    """Flux asks for failed first, then for current; all else is in progress."""
    [check] = [one for one in checks if (one["apiVersion"], one["kind"]) == (item["apiVersion"], item["kind"])]
    for status in ("failed", "current"):
        environment = celpy.Environment()
        program = environment.program(environment.compile(check[status]))
        if program.evaluate({key: celpy.json_to_cel(item.get(key, {})) for key in ("status", "metadata")}):
            return status
    return "inProgress"


def main(folder: str) -> None:
    """Judge each object."""
    argos = yaml.safe_load((Path(folder) / "argocd-cm.yaml").read_text())["data"]
    fluxes = yaml.safe_load((Path(folder) / "flux-kustomization.yaml").read_text())["spec"]["healthCheckExprs"]
    print(json.dumps([[*argo(argos, item), flux(fluxes, item)] for item in json.load(sys.stdin)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
