"""Custom objects straight into etcd: 20,000 of them by requests cost the API server more than all that is measured.

Each is a copy of one that the API server stored itself, under another name: lists and watches tell the same of both.
"""

import base64
import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

import urllib3

Json = dict[str, Any]
MAX_OPERATIONS = 100
"""Of one transaction; etcd takes 128."""


class Etcd:
    """etcd's JSON gateway.

    Args:
        url: of a client port without TLS.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager()

    def get(self, key: str) -> Json:
        """The object of a key.

        Raises:
            KeyError: there is none.
        """
        found = self._send("range", {"key": _encoded(key.encode())})
        if not found.get("kvs"):
            raise KeyError(key)
        stored: Json = json.loads(base64.b64decode(found["kvs"][0]["value"]))
        return stored

    def put_all(self, objects: Iterable[tuple[str, Json]]) -> None:
        """Store objects by their keys, many at a time."""
        left = iter(objects)
        while some := list(islice(left, MAX_OPERATIONS)):
            puts = [
                {"requestPut": {"key": _encoded(key.encode()), "value": _encoded(json.dumps(one).encode())}}
                for key, one in some
            ]
            self._send("txn", {"success": puts})

    def _send(self, call: str, body: Json) -> Json:
        answer = self._pool.request("POST", f"{self._url}/v3/kv/{call}", body=json.dumps(body).encode())
        if answer.status >= 300:
            raise RuntimeError(f"etcd: {call}: {answer.status} {answer.data[:300]!r}")
        found: Json = json.loads(answer.data)
        return found


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
