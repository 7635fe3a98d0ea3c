"""The webhooks' requests. The API server is meant to call them; it shows no certificate, so anybody may.

What anybody sends is bounded: the bytes and values of a question, how long it may take to arrive, how many large ones
there are at a time, and each caller's share of all that. An answer names nothing that the question does not name.
Nothing is answered before the operator has looked at the cluster: the API server then goes by the webhook's failure
policy.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import hdrs, web

from ..model.names import GROUP_PLURAL, TABLE_PLURAL
from .groups import judge_group
from .known import Known
from .review import Review, Verdict, parse_body, render_verdict
from .spark_applications import place_application
from .tables import judge_table
from .turns import Busy, Turns

VALIDATE_PATH = "/v1/validate"
SPARK_APPLICATIONS_PATH = "/v1/spark-applications"
MAX_BODY_BYTES = 4 << 20
"""A review holds two objects (as it is and as it will be) and who asks. etcd takes no object above 1.5 MiB, in the same
JSON; what is larger would be refused after us."""
SMALL_BODY_BYTES = 64 << 10
"""Nearly all reviews are smaller, and are read without waiting for anybody."""
LARGE_AT_ONCE, LARGE_OF_ONE_CALLER = 8, 2
READ_SECONDS = 3.0
"""For a body to arrive. The API server sends it with the headers."""
MAX_LOGGED_CHARACTERS = 1000
SERVER_OPTIONS: dict[str, Any] = {
    "handler_cancellation": True,  # a question whose caller is gone takes no turn and holds no bytes
    "auto_decompress": False,  # the API server compresses nothing; what is compressed may become any size
    "read_bufsize": 16 << 10,
    "lingering_time": 1.0,
}
"""Of the aiohttp server (``web.AppRunner``) that these requests come to."""

Judge = Callable[[Review, Known], Verdict]
VALIDATORS: dict[str, Judge] = {GROUP_PLURAL: judge_group, TABLE_PLURAL: judge_table}

logger = logging.getLogger(__name__)


def validate(review: Review, known: Known) -> Verdict:
    """One of our own objects; others are none of our business."""
    judge = VALIDATORS.get(review.resource.resource)
    return judge(review, known) if judge else Verdict()


def admission_application(known: Callable[[], Known | None]) -> web.Application:
    """The aiohttp application. ``known``: what the operator knows now; None before its first pass.

    Questions are parsed and judged in a thread, one after the other: however many anybody provokes, and however many
    tables there are, the operator's Lease and watches go on.
    """
    counter = _Counter(known)
    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application.router.add_post(VALIDATE_PATH, counter.answering(validate))
    application.router.add_post(SPARK_APPLICATIONS_PATH, counter.answering(place_application))
    application.on_cleanup.append(counter.close)
    return application


class _Counter:
    """Where questions wait and are answered. A question that is given up in its turn is judged to its end: the one
    thread takes the next one then.
    """

    def __init__(self, known: Callable[[], Known | None]) -> None:
        self._known = known
        self._large = Turns(LARGE_AT_ONCE, LARGE_OF_ONE_CALLER)
        self._judging = Turns(1, 1)
        self._thread = ThreadPoolExecutor(1, "admission")

    async def close(self, _application: web.Application) -> None:
        """No question comes any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def answering(self, judge: Judge) -> Callable[[web.Request], Awaitable[web.Response]]:
        """The handler of one kind of questions."""

        async def answer(request: web.Request) -> web.Response:
            try:
                return await self._answer(judge, request)
            except ValueError as error:
                return _refusal(400, str(error))
            except TimeoutError:
                return _refusal(408, f"the body did not arrive within {READ_SECONDS} s; send it at once")
            except Busy as error:
                return _refusal(503, str(error))

        return answer

    async def _answer(self, judge: Judge, request: web.Request) -> web.Response:
        caller = request.remote or ""
        length = request.content_length
        if length is not None and length > MAX_BODY_BYTES:
            raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, length)
        is_small = length is not None and length <= SMALL_BODY_BYTES and hdrs.CONTENT_ENCODING not in request.headers
        async with contextlib.nullcontext() if is_small else self._large.taken_by(caller):
            async with asyncio.timeout(READ_SECONDS):
                body = await request.read()
            async with self._judging.taken_by(caller):
                now = self._known()
                if now is None:
                    return _refusal(503, "the operator has not made its first pass yet; try again")
                loop = asyncio.get_running_loop()
                review, verdict = await loop.run_in_executor(self._thread, _judged, judge, body, now)
        if not verdict.allowed:
            what = f"{review.operation} {review.resource.resource} {review.namespace}/{review.name}"
            logger.info("refused: %s: %s: %.*s", what, verdict.reason, MAX_LOGGED_CHARACTERS, verdict.message)
        return web.json_response(render_verdict(review, verdict))


def _judged(judge: Judge, body: bytes, known: Known) -> tuple[Review, Verdict]:
    review = parse_body(body)
    return review, judge(review, known)


def _refusal(status: int, message: str) -> web.Response:
    """Without an answer; what is still to come of the question is not waited for."""
    response = web.Response(status=status, text=f"{message}\n")
    response.force_close()
    return response
