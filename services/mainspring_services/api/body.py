"""Reading a request's body: bounded in bytes and time, and only JSON that can be kept."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, NoReturn

from fastapi import Request
from pydantic import BaseModel, ValidationError

from mainspring.domain.errors import InvalidInput
from mainspring_services.api.problems import BodyTooLarge, BodyTooSlow
from mainspring_services.api.settings import ApiSettings


async def read_json(request: Request) -> Any:
    """The body as JSON values. Raises InvalidInput, BodyTooLarge, BodyTooSlow."""
    body = await _read(request, request.app.state.settings)
    try:
        return json.loads(body, parse_constant=_refuse_constant, parse_float=_finite)
    except InvalidInput:
        raise
    except UnicodeDecodeError:
        raise InvalidInput("body", "is not UTF-8") from None
    except RecursionError:
        raise InvalidInput("body", "is nested too deeply") from None
    except ValueError as error:
        raise InvalidInput("body", f"is not JSON: {error}"[:300]) from None


async def _read(request: Request, settings: ApiSettings) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > settings.body_bytes:
        raise BodyTooLarge
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > settings.body_bytes:
                    raise BodyTooLarge
                chunks.append(chunk)
    except TimeoutError:
        raise BodyTooSlow from None
    return b"".join(chunks)


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInput("body", f"holds {name}, which is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidInput("body", f"holds {text[:40]}, which is too large a number")
    return number


def parsed(model: type[BaseModel], value: Any, prefix: str = "") -> Any:
    """``value`` as a ``model``. Raises InvalidInput naming the first field that doesn't fit."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{prefix}{place}" or "body", first["msg"]) from None
