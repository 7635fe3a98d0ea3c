"""``<Airflow's Python> airflow_program.py <DAG's file> <day>``: the objects that the DAG's tasks create, as JSON.

It needs neither Airflow's database nor a cluster.
"""

import json
import runpy
import sys
from unittest.mock import Mock

from airflow.providers.cncf.kubernetes.operators.custom_object_launcher import CustomObjectLauncher


def main(file: str, day: str) -> None:
    """Print them in the order of the tasks."""
    dag = runpy.run_path(file)["dag"]
    bodies = []
    for task in dag.topological_sort():
        task.render_template_fields({"ds": day}, dag.get_template_env())
        template = task.manage_template_specs()
        name = template["spark"]["metadata"]["name"]
        bodies.append(CustomObjectLauncher(name, task.namespace, Mock(), Mock(), template).body)
    json.dump(bodies, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
