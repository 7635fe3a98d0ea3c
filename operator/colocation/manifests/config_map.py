"""The ConfigMap ``<group>-spark``: all that Spark needs of a group.

An account that may read ConfigMaps in the namespace needs no other discovery. See docs/reference/contracts.md.
"""

import json
from functools import lru_cache

import yaml

from ..model.base import Frozen
from ..model.names import AGENTS_KEY, CA_PATH, OTHER_AGENTS_KEY
from ..model.reader_rules import SIGN_OF_LIFE_KEY, SignOfLife
from .spark_pods import (
    SparkPlacement,
    driver_pod_template,
    executor_pod_template,
    render_properties,
    spark_defaults,
)

CA_KEY = CA_PATH.rpartition("/")[2]


class SparkConfigMap(Frozen):
    """What the ConfigMap tells. ``agent_urls``: node -> URL of the ready agents that hold or should hold buckets of the
    group; ``other_agent_urls``: of those that are not ready; ``ca_certificate``: PEM.
    """

    placement: SparkPlacement
    agent_urls: dict[str, str]
    ca_certificate: str
    other_agent_urls: dict[str, str] = {}


def spark_config_map_data(content: SparkConfigMap, sign: SignOfLife | None = None) -> dict[str, str]:
    """The ConfigMap's data, with a sign of life of the operator that writes it."""
    placement = content.placement
    driver, executor = _pod_templates(placement)
    signed = {SIGN_OF_LIFE_KEY: json.dumps(sign.to_json_dict()) + "\n"} if sign else {}
    return {
        **signed,
        AGENTS_KEY: _urls_text(content.agent_urls),
        OTHER_AGENTS_KEY: _urls_text(content.other_agent_urls),
        CA_KEY: content.ca_certificate,
        "driver-pod-template.yaml": driver,
        "executor-pod-template.yaml": executor,
        "spark-defaults.conf": render_properties(spark_defaults(placement)),
    }


def _urls_text(urls: dict[str, str]) -> str:
    return json.dumps(dict(sorted(urls.items())), indent=2) + "\n"


@lru_cache(maxsize=2048)
def _pod_templates(placement: SparkPlacement) -> tuple[str, str]:
    """The driver's and the executors' as YAML; remembered, as agents come and go more often than nodes."""
    templates = driver_pod_template(placement), executor_pod_template(placement)
    driver, executor = (yaml.dump(template, Dumper=yaml.CSafeDumper, sort_keys=False) for template in templates)
    return driver, executor
