from tests.spark.test_in_place import *
from tests.spark.test_in_place import test_rows_stay as _t
def plans(session):
    store = session._jsparkSession.sharedState().statusStore()
    xs = store.executionsList()
    return [xs.apply(i).physicalPlanDescription() for i in range(xs.size())]
def test_it(session, facts):
    session.conf.set("spark.sql.adaptive.enabled", "true")
    print(session.sql(f"EXPLAIN INSERT INTO {IN}.plain " + IN_PLACE["group-by"]).collect()[0][0])
    print(session.sql(f"EXPLAIN INSERT INTO {IN}.days " + IN_PLACE["group-by"]).collect()[0][0])
    for sql in ["MERGE INTO {i}.orders t USING (SELECT k, max(price) AS p FROM {i}.lines WHERE k % 50 < 10 GROUP BY k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET total = s.p WHEN NOT MATCHED THEN INSERT (k, total) VALUES (s.k, s.p)",
      "MERGE INTO {i}.orders t USING (SELECT id * 7 AS k, id FROM range(60)) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET total = s.id WHEN NOT MATCHED THEN INSERT (k, total) VALUES (s.k, s.id)",
      "UPDATE {i}.orders SET total = 0 WHERE k % 7 = 3", "DELETE FROM {i}.orders WHERE k IN (SELECT k FROM {i}.lines WHERE price < 100)"]:
        before = len(plans(session))
        print("STATEMENT", sql, session.sql(sql.format(i=IN)).collect())
        import time; time.sleep(0.5)
        for p in plans(session)[before:]:
            if "== Final Plan" in p or "AppendData" in p or "MapPart" in p or "Exchange" in p:
                p = p.split("== Initial Plan")[0]
                print("PLAN", p[:6000].split("\n\n(1)")[0])
