"""JSON bodies of requests and answers."""

import asyncio
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from colocation.model.agent import TableReport
from colocation.model.content_digest import is_sha256

from .errors import Refusal

Body = TypeVar("Body", bound=BaseModel)


MAX_BODY_BYTES = 1 << 20
BODY_SECONDS = 60.0
"""For the whole of it: it is small, or comes from the operator."""


async def body_of(request: web.Request, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """A request's whole body.

    Raises:
        Refusal: 408, it comes too slowly; 413, it is too large.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while piece := await request.content.readany():
                body += piece
                if len(body) > max_bytes:
                    message = f"the body is too large; allowed: {max_bytes} bytes; ask about fewer tables or files"
                    raise Refusal(413, "BodyTooLarge", message)
    except TimeoutError as error:
        message = f"{len(body)} bytes came within {BODY_SECONDS:.0f} s; send the request again"
        raise Refusal(408, "RequestTimeout", message) from error
    return bytes(body)


def validated(kind: type[Body], content: bytes) -> Body:
    """A body's content.

    Raises:
        Refusal: 400, it is no such content; saying what is wrong with which field.
    """
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise Refusal(400, "InvalidBody", f"the body is not a {kind.__name__}: {problems}") from error


async def parsed_body(request: web.Request, kind: type[Body]) -> Body:
    """A request's body.

    Raises:
        Refusal: 400, 413.
    """
    return validated(kind, await body_of(request))


def check_digests(digests: tuple[str, ...]) -> None:
    """Refuse what is no SHA-256.

    Raises:
        Refusal: 400.
    """
    for digest in digests:
        if not is_sha256(digest):
            message = f"manifest {digest!r} is not allowed; allowed: 64 lower-case hex digits"
            raise Refusal(400, "InvalidDigest", message)


def answer_of(content: BaseModel | TableReport) -> web.Response:
    """200 with a content as JSON in camelCase."""
    return web.json_response(text=to_json(content, by_alias=True).decode())
