{{ config(materialized='table', clustered_by=['o_orderkey'], buckets=8, tblproperties={'colocate_with': 'sales'}) }}
select o_orderkey, o_totalprice + {{ var('more') }} as price from {{ source('shop', 'orders') }}
