"""The commands' connection to the API server, which does not believe a refusal of a server that has just begun."""

import time
from http import HTTPStatus
from typing import Any

from kubernetes import client

from .errors import CommandFailed

REQUEST_SECONDS = 10.0
ANSWER_SECONDS = 30.0
"""Between two bytes of an answer."""
PAUSE_SECONDS = 0.5
STARTING_SECONDS = 25.0
"""An API server is ready a few seconds after its start."""
READING_ROLES_SECONDS = 5.0
"""So long a server that refuses to say whether it is ready is taken for one that has not read the roles yet."""
_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


class Connection(client.ApiClient):
    """A client whose refusals (401, 403) can be believed.

    An API server that has just begun has not read all roles and accounts, and refuses what is allowed, and tokens that
    are good. So a refusal counts when it was given after the server had said that it is ready. It
    says that nothing was done, so writes may be repeated, too.
    """

    def __init__(self, configuration: client.Configuration) -> None:
        super().__init__(configuration)
        self._tells_readiness = True

    def call_api(self, *request: Any, **options: Any) -> Any:  # the client is untyped
        """One request; what was refused is asked once more when the server is ready.

        A server that does not answer is given up: the client would wait without end.
        """
        options["_request_timeout"] = options.get("_request_timeout") or (REQUEST_SECONDS, ANSWER_SECONDS)
        answer = super().call_api(*request, **options)
        if answer.status not in _REFUSALS:
            return answer
        answer.read()  # makes the connection free again
        self.wait_until_ready(as_nobody=answer.status == HTTPStatus.UNAUTHORIZED)
        return super().call_api(*request, **options)

    def wait_until_ready(self, as_nobody: bool = False) -> None:
        """Until the server says that it is ready, or has refused so long to say it that it tells nobody.

        ``as_nobody``: without credentials, which most servers allow; of what has expired they would say nothing.

        Raises:
            CommandFailed: it does not become ready.
        """
        began = time.monotonic()
        while self._tells_readiness:
            status, waited = self._readiness(as_nobody), time.monotonic() - began
            if status in _REFUSALS:
                self._tells_readiness = waited < READING_ROLES_SECONDS
            elif status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _PASSING:
                return
            elif waited >= STARTING_SECONDS:
                raise CommandFailed(
                    f"the API server refused the request, and is not ready: it answers {status} to /readyz since "
                    f"{STARTING_SECONDS:.0f} s; it may not have read all roles yet, so run the command again later"
                )
            time.sleep(PAUSE_SECONDS)

    def _readiness(self, as_nobody: bool) -> int:
        request = self.param_serialize("GET", "/readyz", auth_settings=[] if as_nobody else ["BearerToken"])
        answer = super().call_api(*request, _request_timeout=REQUEST_SECONDS)
        answer.read()
        return int(answer.status)
