{# dbt-spark takes incremental_strategy='merge' for Delta, Iceberg and Hudi only. Our tables have MERGE, too. #}
{% macro dbt_spark_validate_get_incremental_strategy(raw_strategy, file_format) %}
  {{ return(raw_strategy) }}
{% endmacro %}

{# A model's schema as it is written, so that views can be in Spark's own catalog: schema='spark_catalog.reports'. #}
{% macro generate_schema_name(custom_schema_name, node) %}
  {{ return((custom_schema_name or target.schema) | trim) }}
{% endmacro %}

{# dbt-spark makes seeds without tblproperties, by which they name their group. #}
{% macro spark__create_csv_table(model, agate_table) %}
  {%- set types = model['config'].get('column_types', {}) -%}
  {% call statement('_') %}
    create table {{ this.render() }} (
      {%- for name in agate_table.column_names %}
      {{ name }} {{ types.get(name, adapter.convert_type(agate_table, loop.index0)) }}{{ ',' if not loop.last }}
      {%- endfor %}
    )
    {{ file_format_clause() }} {{ clustered_cols(label='clustered by') }} {{ tblproperties_clause() }}
  {% endcall %}
  {{ return('') }}
{% endmacro %}
