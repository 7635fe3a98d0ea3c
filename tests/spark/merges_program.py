"""``python -m tests.spark.merges_program <folder> <namespace> <merges>``: a user's session, one MERGE after the other.

``folder``: with the account's ``kubeconfig``, its ``token`` for agents, and their ``ca.crt``. Prints a line of JSON for
each MERGE: its result, its seconds, and the bytes of the driver's heap after a collection; then the table's rows.
"""

import json
import sys
import time

from tests.spark.real_operator_program import user_session

ROWS, CHANGED = 100_000, 500
TABLE = (
    "CREATE TABLE t (k BIGINT, v BIGINT, w STRING) CLUSTERED BY (k) INTO 4 BUCKETS TBLPROPERTIES ("
    "'replication_num'='2', 'retention_seconds'='5', 'retention_snapshots'='3', 'compaction_enabled'='true')"
)
MERGE = f"""
    MERGE INTO t USING (SELECT (id * 7919 + {{n}} * 31) % {2 * ROWS} AS k, {{n}} AS v FROM range({CHANGED})) s
    ON t.k = s.k WHEN MATCHED AND t.k % 10 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v
    WHEN NOT MATCHED THEN INSERT (k, v, w) VALUES (s.k, s.v, 'new')"""


def main() -> None:
    """Merge."""
    folder, namespace, merges = sys.argv[1:]
    session = user_session(folder, namespace)
    session.sql(TABLE)
    session.sql(f"INSERT INTO t SELECT id, 0, 'first' FROM range({ROWS})")
    assert session.sparkContext._jvm is not None
    java = session.sparkContext._jvm.java.lang
    for number in range(int(merges)):
        began = time.monotonic()
        [done] = session.sql(MERGE.format(n=number)).collect()
        seconds = round(time.monotonic() - began, 1)
        java.System.gc()
        heap = java.Runtime.getRuntime().totalMemory() - java.Runtime.getRuntime().freeMemory()
        print(json.dumps({**done.asDict(), "seconds": seconds, "heap_bytes": heap}), flush=True)
    print(json.dumps({"rows": session.table("t").count()}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
