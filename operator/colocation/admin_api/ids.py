"""What a group's two ids look like in requests."""

import re

from .errors import Refusal

DB_ID, GROUP_ID = r"[0-9a-f]{8}", r"[0-9]+"


def check_ids(db_id: str, group_id: str | None = None) -> None:
    """Names of namespaces and groups are refused, and ids that were not taken apart: they would be ids of nothing.

    Raises:
        Refusal: ``InvalidParameter``, with where the ids stand.
    """
    wrong = []
    if not re.fullmatch(DB_ID, db_id, re.ASCII):
        wrong.append(f"db_id={db_id} is no id of a database: allowed: 8 hexadecimal digits")
    if group_id is not None and not re.fullmatch(GROUP_ID, group_id, re.ASCII):
        wrong.append(f"group_id={group_id} is no id of a group: allowed: a number")
    if wrong:
        where = "a group's status.groupId is <db_id>.<group_id>: kubectl get colocationgroup GROUP -n NAMESPACE -o yaml"
        raise Refusal(400, "InvalidParameter", "; ".join([*wrong, where]))
