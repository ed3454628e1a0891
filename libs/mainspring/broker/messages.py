"""The one message: a queue's name and 1 to 100 job references. Never a payload.

Body: ``{"v": 1, "queue": "billing", "jobs": [["<job id, 32 hex digits>", <ticket>], …]}`` as UTF-8 JSON. With
``"admitted": true`` the release has judged all limits of these jobs; who doesn't know the field judges again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from mainspring.domain.errors import UnreadableMessage
from mainspring.domain.job import MOST_REFS, NAME, JobRef

CONTENT_TYPE = "application/json"
VERSION = 1
#: The context of the span that sent the message, when traces are on. The jobs' own contexts are in their rows.
TRACE_HEADER = "traceparent"
_LARGEST_TICKET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class JobBatch:
    """Jobs of one queue that travel together, each with its ticket."""

    queue: str
    refs: tuple[JobRef, ...]
    #: The release has judged the limits of all of them.
    is_admitted: bool = False


def split(queue: str, refs: Sequence[JobRef], most: int = MOST_REFS) -> Iterator[JobBatch]:
    """Cut ``refs`` into batches of at most ``most``, in their order."""
    for start in range(0, len(refs), most):
        yield JobBatch(queue, tuple(refs[start : start + most]))


def encode(batch: JobBatch) -> bytes:
    """The body of a message."""
    jobs = [[ref.id.hex, ref.ticket] for ref in batch.refs]
    admitted = {"admitted": True} if batch.is_admitted else {}
    return json.dumps({"v": VERSION, "queue": batch.queue, "jobs": jobs, **admitted}, separators=(",", ":")).encode()


def decode(body: bytes, content_type: str | None = CONTENT_TYPE) -> JobBatch:
    """Read a body. Raises UnreadableMessage with a reason for anything that ``encode`` doesn't write."""
    if content_type != CONTENT_TYPE:
        raise UnreadableMessage("wrong_content_type", repr(content_type)[:100])
    envelope = _envelope(body)
    queue, jobs = envelope.get("queue"), envelope.get("jobs")
    if not isinstance(queue, str) or not NAME.fullmatch(queue):
        raise UnreadableMessage("bad_queue")
    if not isinstance(jobs, list) or not 1 <= len(jobs) <= MOST_REFS:
        raise UnreadableMessage("bad_job_list")
    return JobBatch(queue, tuple(_ref(job) for job in jobs), envelope.get("admitted") is True)


def _envelope(body: bytes) -> dict[str, object]:
    if not body:
        raise UnreadableMessage("empty")
    try:
        envelope = json.loads(body.decode())
    except UnicodeDecodeError:
        raise UnreadableMessage("not_utf8") from None
    except (ValueError, RecursionError):
        raise UnreadableMessage("not_json") from None
    if not isinstance(envelope, dict):
        raise UnreadableMessage("not_an_object")
    if envelope.get("v") != VERSION:
        raise UnreadableMessage("unknown_version", repr(envelope.get("v"))[:100])
    return envelope


def _ref(job: object) -> JobRef:
    match job:
        case [str(text), int(ticket)] if not isinstance(ticket, bool) and 0 <= ticket <= _LARGEST_TICKET:
            try:
                return JobRef(UUID(text), ticket)
            except ValueError:
                raise UnreadableMessage("bad_job_id", repr(text)[:100]) from None
    raise UnreadableMessage("bad_job_reference")
