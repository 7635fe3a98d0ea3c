"""The ConfigMap ``<group>-spark``: all that Spark needs of a group, for whoever may read ConfigMaps there.

See ARCHITECTURE.md, "ConfigMap <group>-spark".
"""

import json
from collections.abc import Mapping

import yaml

from ..model.names import CA_PATH
from .spark_pods import (
    SparkPlacement,
    driver_pod_template,
    executor_pod_template,
    render_properties,
    spark_defaults,
)

CA_KEY = CA_PATH.rpartition("/")[2]


def spark_config_map_data(
    placement: SparkPlacement, agent_urls: Mapping[str, str], ca_certificate: str
) -> dict[str, str]:
    """The ConfigMap's data. ``agent_urls``: node -> URL of the ready agents; ``ca_certificate``: PEM."""
    return {
        "agents.json": json.dumps(dict(sorted(agent_urls.items())), indent=2) + "\n",
        CA_KEY: ca_certificate,
        "driver-pod-template.yaml": yaml.safe_dump(driver_pod_template(placement), sort_keys=False),
        "executor-pod-template.yaml": yaml.safe_dump(executor_pod_template(placement), sort_keys=False),
        "spark-defaults.conf": render_properties(spark_defaults(placement)),
    }
