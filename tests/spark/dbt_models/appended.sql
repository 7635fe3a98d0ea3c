{{ config(materialized='incremental', incremental_strategy='append', on_schema_change='append_new_columns', clustered_by=['o_orderkey'], buckets=8, tblproperties={'colocate_with': 'sales'}) }}
select o_orderkey {% if var('wide') %}, o_totalprice as price {% endif %}
from {{ source('shop', 'orders') }}
{% if is_incremental() %} where o_orderkey > (select max(o_orderkey) from {{ this }}) {% endif %}
