"""POST /v1/inventory: questions of the operator's conversation, held until something changes; and single questions."""

import asyncio
import hashlib
import re
import time

from aiohttp import web
from pydantic import ValidationError

from colocation.common.waiting import set_within
from colocation.model.agent import AgentReport, InventoryRequest, OldInventoryRequest

from .conversation import Question, StaleTerm, UnknownQuestion
from .front_configuration import MAX_BODY_BYTES
from .http_messages import answer_of, body_of, validated
from .inventory_answers import Superseded
from .node_state import NodeState

POLL_SECONDS = 1.0
"""While a question is held: how often announcements, clones' progress and the disk are checked."""
ANSWER_PAUSE_SECONDS = 1.0
"""Between two answers to questions that may be held: a load that publishes a file every millisecond is reported once a
second.
"""
LOOK_PAUSE_SECONDS = 0.2
"""Between two checks while a question is held: files of tables that no question names ring the bell, too."""
_REVISION_NUMBER = re.compile(r"[0-9]{1,19}")
FREE_BYTES_STEP = 64 << 20
"""Free space in answers to single questions is rounded down, so that other programs' writes do not change every
revision.
"""


async def inventory(node: NodeState, request: web.Request) -> web.Response:
    """Answer with the report, or 304 if the caller has it.

    A question without a session (also in the form of the release before sessions) is answered in full, immediately, and
    not remembered.
    """
    asked = _asked(await body_of(request, MAX_BODY_BYTES))
    if isinstance(asked, OldInventoryRequest):
        return await _answered_alone(node, request, asked)
    taken = node.conversation.take(asked)
    node.bell.ring()  # ends an older held question
    if taken.differing:
        await node.reporting.run(node.folders.prepare, taken.differing)
    for ended in taken.running:
        await asyncio.shield(asyncio.wrap_future(ended))
    since = _revision_of(request.headers.get("If-None-Match"), node.conversation.instance)
    wait_seconds = 0.0 if taken.is_new else asked.wait_seconds
    report = await _held(node, taken.question, since, wait_seconds)
    node.answered_at = time.monotonic()
    if report is None:
        return web.Response(status=304, headers={"ETag": request.headers.get("If-None-Match", "")})
    return _with_tag(report.model_copy(update={"active_transfers": node.active_transfers}))


async def _held(node: NodeState, question: Question, since: int | None, wait_seconds: float) -> AgentReport | None:
    """The report once it differs from the caller's; None if nothing changed in time or before a newer question of the
    session.

    None is returned only after a check: it confirms that all the caller knows is still true.

    Raises:
        StaleTerm: an operator with a newer term asks.
        UnknownQuestion: another question was asked, and this one cannot be answered.
    """
    has_looked = False
    ends_at = time.monotonic() + wait_seconds
    not_before = node.answered_at + ANSWER_PAUSE_SECONDS if wait_seconds else 0.0
    while True:
        ring = node.bell.next_ring
        now = time.monotonic()
        left_seconds = 0.0 if node.stopping else ends_at - now
        if now >= not_before or left_seconds <= 0:
            try:
                report = await node.reporting.run(node.answers.answer, question, since)
            except Superseded:
                _check_replaced(node, question, has_looked)
                return None
            has_looked = True
            if report is not None or left_seconds <= 0:
                return report
            not_before = now + LOOK_PAUSE_SECONDS
            pause_seconds = POLL_SECONDS
        else:
            pause_seconds = not_before - now
        await set_within(ring, min(pause_seconds, left_seconds))
        if node.conversation.question is not question:
            _check_replaced(node, question, has_looked)
            return None


def _check_replaced(node: NodeState, question: Question, has_looked: bool) -> None:
    """Refuse a replaced question, unless the newer one is of the same session and nothing had changed.

    Raises:
        StaleTerm: an operator with a newer term asks.
        UnknownQuestion: the question cannot be answered.
    """
    newest = node.conversation.question
    if has_looked and newest is not None and newest.session == question.session:
        return
    if node.conversation.term > question.term:
        raise StaleTerm(question.term, node.conversation.term)
    raise UnknownQuestion(f"question {question.number} was replaced by a newer one; ask in full")


async def _answered_alone(node: NodeState, request: web.Request, single: OldInventoryRequest) -> web.Response:
    report = await node.reporting.run(node.answers.unasked, single.tables, True)
    rounded = report.free_bytes // FREE_BYTES_STEP * FREE_BYTES_STEP
    lasting = report.model_copy(update={"uptime_seconds": 0.0, "term": 0, "free_bytes": rounded})
    revision = hashlib.sha256(lasting.model_dump_json().encode()).hexdigest()
    if request.headers.get("If-None-Match") == f'"{revision}"':
        return web.Response(status=304, headers={"ETag": f'"{revision}"'})
    update = {"revision": revision, "free_bytes": rounded, "active_transfers": node.active_transfers}
    return _with_tag(report.model_copy(update=update))


def _asked(content: bytes) -> InventoryRequest | OldInventoryRequest:
    """A question of a conversation, or a single one."""
    try:
        asked = InventoryRequest.model_validate_json(content)
    except ValidationError:
        try:
            return OldInventoryRequest.model_validate_json(content)
        except ValidationError:
            asked = validated(InventoryRequest, content)  # refuses, naming what is wrong with the current form
    if asked.session:
        return asked
    return OldInventoryRequest(tables=tuple(one.reference for one in asked.changed))


def _revision_of(header: str | None, instance: str) -> int | None:
    """The number of a revision of this process in ``If-None-Match``; None for any other."""
    begin, _, number = (header or "").strip('"').rpartition("-")
    return int(number) if begin == instance and _REVISION_NUMBER.fullmatch(number) else None


def _with_tag(report: AgentReport) -> web.Response:
    response = answer_of(report)
    response.headers["ETag"] = f'"{report.revision}"'
    return response
