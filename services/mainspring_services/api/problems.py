"""Errors as RFC 9457 problem details: one table from our error tree to HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from mainspring.domain.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    MainspringError,
    NotFound,
    QueueFull,
    Unauthenticated,
    Unavailable,
)

STATUS: tuple[tuple[type[MainspringError], int, str], ...] = (
    (InvalidInput, 422, "The request is not valid"),
    (Unauthenticated, 401, "Who asks?"),
    (Forbidden, 403, "This key isn't good for that"),
    (NotFound, 404, "Not found"),
    (Conflict, 409, "The request doesn't fit the current state"),
    (QueueFull, 429, "The queue is full"),
    (Unavailable, 503, "A server that this needs doesn't answer"),
)


#: When to submit again what a full queue refused.
RETRY_AFTER_SECONDS = 1


class BodyTooLarge(Exception):
    """The body is longer than what is allowed."""


class BodyTooSlow(Exception):
    """The body took longer than what is allowed."""


def problem(status: int, title: str, detail: str = "", errors: Sequence[dict[str, str]] = ()) -> JSONResponse:
    """A problem document."""
    body: dict[str, Any] = {"type": "about:blank", "title": title, "status": status}
    if detail:
        body["detail"] = detail
    if errors:
        body["errors"] = list(errors)
    return JSONResponse(body, status, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Have every error of ours, and the framework's, answered as a problem."""
    app.add_exception_handler(MainspringError, _ours)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(BodyTooLarge, lambda *_: _hang_up(problem(413, "The body is too large")))
    app.add_exception_handler(BodyTooSlow, lambda *_: _hang_up(problem(408, "The body took too long")))


def _hang_up(answer: JSONResponse) -> JSONResponse:
    """Close the connection after this answer: on one that stays open the server would read the rest, to no end."""
    answer.headers["Connection"] = "close"
    return answer


def _ours(_: Request, error: Exception) -> JSONResponse:
    for kind, status, title in STATUS:
        if isinstance(error, kind):
            if isinstance(error, InvalidInput):
                return problem(status, title, errors=[{"field": error.field, "message": error.message}])
            answer = problem(status, title, str(error))
            if isinstance(error, Unauthenticated):
                answer.headers["WWW-Authenticate"] = "Bearer"
            if isinstance(error, QueueFull):
                answer.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
            return answer
    raise error


def _validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101  the framework's contract
    return problem(422, "The request is not valid", errors=[_fault(one) for one in error.errors()])


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101  the framework's contract
    return problem(error.status_code, str(error.detail))


def _fault(one: dict[str, Any]) -> dict[str, str]:
    places = [str(part) for part in one["loc"] if part not in ("body", "query", "path")]
    return {"field": ".".join(places) or "body", "message": one["msg"]}
