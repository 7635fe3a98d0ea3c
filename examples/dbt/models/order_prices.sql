-- One row for each order, in the buckets of orders and lineitem: neither the join nor the MERGE shuffles them.
{{ config(
    materialized='incremental', incremental_strategy='merge', unique_key='o_orderkey',
    clustered_by=['o_orderkey'], buckets=8, tblproperties={'colocate_with': 'sales'}
) }}
select o_orderkey, first(o_orderdate) as o_orderdate, sum(l_extendedprice) as price
from {{ source('shop', 'orders') }} join {{ source('shop', 'lineitem') }} on o_orderkey = l_orderkey
{% if is_incremental() %}
where o_orderdate >= (select max(o_orderdate) from {{ this }})
{% endif %}
group by o_orderkey
