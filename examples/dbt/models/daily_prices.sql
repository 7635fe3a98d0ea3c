-- Our catalog has tables only: views are in Spark's own.
{{ config(materialized='view', schema='spark_catalog.reports') }}
select o_orderdate, count(*) as orders, sum(price) as price
from {{ ref('order_prices') }}
group by o_orderdate
