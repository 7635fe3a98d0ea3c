"""Every night the day's rows of the lake are loaded, and then orders and lineitem are joined, without a shuffle.

The folder goes to Airflow's DAGs as it is. Both tasks create a SparkApplication with the group's label: the webhook
(`webhooks.enabled=true`) places its pods where the group's buckets are.
"""

from datetime import UTC, datetime

from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
from airflow.sdk import DAG

with DAG(
    dag_id="daily_prices",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2},
) as dag:
    load = SparkKubernetesOperator(task_id="load", namespace="shop", application_file="load.yaml")
    join = SparkKubernetesOperator(task_id="join", namespace="shop", application_file="join.yaml")
    load >> join
