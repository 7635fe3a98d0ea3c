"""The ConfigMap ``<group>-spark``: all that Spark needs of a group, for whoever may read ConfigMaps there.

See ARCHITECTURE.md, "ConfigMap <group>-spark".
"""

import json

import yaml

from ..model.base import Frozen
from ..model.names import CA_PATH
from .spark_pods import (
    SparkPlacement,
    driver_pod_template,
    executor_pod_template,
    render_properties,
    spark_defaults,
)

CA_KEY = CA_PATH.rpartition("/")[2]


class SparkConfigMap(Frozen):
    """What the ConfigMap tells. ``agent_urls``: node -> URL of the ready agents; ``ca_certificate``: PEM."""

    placement: SparkPlacement
    agent_urls: dict[str, str]
    ca_certificate: str


def spark_config_map_data(content: SparkConfigMap) -> dict[str, str]:
    """The ConfigMap's data."""
    placement = content.placement
    return {
        "agents.json": json.dumps(dict(sorted(content.agent_urls.items())), indent=2) + "\n",
        CA_KEY: content.ca_certificate,
        "driver-pod-template.yaml": yaml.safe_dump(driver_pod_template(placement), sort_keys=False),
        "executor-pod-template.yaml": yaml.safe_dump(executor_pod_template(placement), sort_keys=False),
        "spark-defaults.conf": render_properties(spark_defaults(placement)),
    }
