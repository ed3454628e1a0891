"""The OpenAPI document: what the routes declare, with the bodies that they read and the problems that they answer.

Bodies are read by hand (``body.py``), since their bytes and their time are bounded before anything is parsed; so the
models of requests are put into the document here.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mainspring_services.api.schemas.common import Problem

_REFERENCE = "#/components/schemas/{model}"
_TITLES = {
    401: "No API key, or one that isn't valid",
    403: "The key lacks the scope",
    404: "Nothing of this name or id",
    408: "The body took too long",
    409: "It doesn't fit the current state",
    413: "The body is too large",
    422: "Not valid: `errors` names each field",
    429: "As many jobs wait in the queue as may; `Retry-After` says when to ask again",
    503: "Postgres doesn't answer",
}
_bodies: set[type[BaseModel]] = set()


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route answers, for its ``responses``."""
    content = {"application/problem+json": {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
    return {status: {"description": _TITLES[status], "content": content} for status in statuses}


#: What any route can end in.
USUAL_PROBLEMS = answers(401, 403, 422, 503)
#: What reading a body can end in, besides.
BODY_PROBLEMS = answers(408, 413)


#: The parameter and the answer's header of a route whose repeats get the first answer again.
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "1 to 255 printable characters. A repeat gives the first answer again; another request is refused.",
    "schema": {"type": "string"},
}
REPLAYED = {
    "Idempotency-Replayed": {"description": "`true` when it was accepted earlier.", "schema": {"type": "string"}}
}


def replayed(is_replayed: bool) -> dict[str, str]:
    """The header that tells a repeat from a first request."""
    return {"Idempotency-Replayed": "true"} if is_replayed else {}


def takes(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """The request body of a route, for its ``openapi_extra``."""
    _bodies.add(model)
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}}


def install(app: FastAPI) -> None:
    """Have ``app`` serve this document at /openapi.json."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    models: list[tuple[type[BaseModel], Any]] = [(model, "validation") for model in sorted(_bodies, key=str)]
    _, requests = models_json_schema([*models, (Problem, "serialization")], ref_template=_REFERENCE)
    made["components"]["schemas"] |= requests["$defs"]
    for unused in ("HTTPValidationError", "ValidationError"):
        made["components"]["schemas"].pop(unused, None)
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    # Without any key an api on loopback lets everybody in: hence the empty alternative.
    made["security"] = [{"key": []}, {}]
    return made
