{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['o_orderdate'], clustered_by=['o_orderkey'], buckets=8, tblproperties={'colocate_with': 'sales'}) }}
select o_orderkey, o_totalprice + {{ var('more') }} as price, o_orderdate
from {{ source('shop', 'orders') }}
{% if is_incremental() %} where o_orderdate >= DATE '1995-01-07' {% endif %}
