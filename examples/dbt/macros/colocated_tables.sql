{# dbt-spark takes incremental_strategy='merge' for Delta, Iceberg and Hudi only. Our tables have MERGE, too. #}
{% macro dbt_spark_validate_get_incremental_strategy(raw_strategy, file_format) %}
  {{ return(raw_strategy) }}
{% endmacro %}

{# A model's schema as it is written, so that views can be in Spark's own catalog: schema='spark_catalog.reports'. #}
{% macro generate_schema_name(custom_schema_name, node) %}
  {{ return((custom_schema_name or target.schema) | trim) }}
{% endmacro %}
