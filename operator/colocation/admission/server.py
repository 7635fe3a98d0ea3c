"""The webhooks' requests. The API server alone calls them; what it asks holds no secret, and an answer changes nothing.

Nothing is answered before the operator has looked at the cluster: the API server then goes by the webhook's failure
policy.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from ..model.names import GROUP_PLURAL, TABLE_PLURAL
from .groups import judge_group
from .known import Known
from .review import Review, Verdict, parse_body, render_verdict
from .spark_applications import place_application
from .tables import judge_table

VALIDATE_PATH = "/v1/validate"
SPARK_APPLICATIONS_PATH = "/v1/spark-applications"
MAX_BODY_BYTES = 8 << 20
"""An object may have 1.5 MiB in etcd, and a review holds two of it, escaped."""

Handler = Callable[[web.Request], Awaitable[web.Response]]
Judge = Callable[[Review, Known], Verdict]
VALIDATORS: dict[str, Judge] = {GROUP_PLURAL: judge_group, TABLE_PLURAL: judge_table}

logger = logging.getLogger(__name__)


def validate(review: Review, known: Known) -> Verdict:
    """One of our own objects; others are none of our business."""
    judge = VALIDATORS.get(review.resource.resource)
    return judge(review, known) if judge else Verdict()


def admission_application(known: Callable[[], Known | None]) -> web.Application:
    """The aiohttp application. ``known``: what the operator knows now; None before its first pass.

    Questions are judged in a thread, one after the other: however many anybody provokes, and however many tables there
    are, the operator's Lease and watches go on.
    """
    turn = asyncio.Lock()
    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application.router.add_post(VALIDATE_PATH, _handler(validate, known, turn))
    application.router.add_post(SPARK_APPLICATIONS_PATH, _handler(place_application, known, turn))
    return application


def _handler(judge: Judge, known: Callable[[], Known | None], turn: asyncio.Lock) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        try:
            review = parse_body(await request.read())
        except ValueError as error:
            return web.Response(status=400, text=f"{error}\n")
        async with turn:
            now = known()
            if now is None:
                return web.Response(status=503, text="the operator has not made its first pass yet; try again\n")
            verdict = await asyncio.to_thread(judge, review, now)
        if not verdict.allowed:
            what = f"{review.operation} {review.resource.resource} {review.namespace}/{review.name}"
            logger.info("refused: %s: %s: %s", what, verdict.reason, verdict.message)
        return web.json_response(render_verdict(review, verdict))

    return answer
