"""What all answers share: problems, and the texts that a path or a query may hold."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, Strict

from mainspring.domain.job import NAME


def _storable(text: str) -> str:
    if not text.isprintable() and any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("holds a character that Postgres can't store")
    return text


def _written_out(value: object) -> object:
    # Left to itself pydantic reads a number, also one in quotes, as seconds since 1970.
    if not isinstance(value, datetime) and not (isinstance(value, str) and _DATE.match(value)):
        raise ValueError("must be an instant such as 2026-01-31T09:00:00Z")
    return value


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]")
#: An instant that a caller gives; that it has a zone is checked by the domain.
Instant = Annotated[datetime, BeforeValidator(_written_out)]
#: A number as JSON has it: neither text nor true.
Number = Annotated[float, Strict()]
#: A person's words: anything that Postgres keeps.
Note = Annotated[str, Field(max_length=1000), AfterValidator(_storable)]
#: Part of a name, or a tag: what a list is filtered by.
Word = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_storable)]
#: A queue's, task's or schedule's name.
NameText = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
Name = Annotated[str, Path(pattern=f"^{NAME.pattern}$")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
NoteQuery = Annotated[Note | None, Query(description="Why, for those who look later.")]


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str = Field(description="Its path, such as `payload.cents` or `jobs.3.queue`.")
    message: str


class Problem(BaseModel):
    """An error, as RFC 9457 describes it."""

    type: str
    title: str
    status: int
    detail: str | None = None
    errors: list[FieldError] | None = None


class Difference(BaseModel):
    """A thing that differs: what its fields were and would be."""

    name: str
    before: dict[str, Any]
    after: dict[str, Any]


class AppliedOut(BaseModel):
    """What applying a file changes."""

    created: list[str]
    changed: list[Difference]
    unchanged: list[str]
    deleted: list[str]
    dry_run: bool
    digest: str = Field(description="Of the difference.")
