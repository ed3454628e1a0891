"""/v1/jobs."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from mainspring.domain.errors import Conflict, InvalidInput, NotFound
from mainspring.domain.job import JobRequest
from mainspring.domain.states import FINAL, WAITING
from mainspring.domain.states import State as JobState
from mainspring.domain.why import explain
from mainspring.runtime.job_spans import traced
from mainspring.runtime.submit import Accepted
from mainspring.store import attempts, job_lists, jobs
from mainspring.store import why as why_store
from mainspring.store.jobs import JobEdit
from mainspring.store.pool import Conn
from mainspring.telemetry.tracing import Operation
from mainspring_services.api.access import READS, SUBMITS, Operator
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, KEY, REPLAYED, USUAL_PROBLEMS, answers, replayed, takes
from mainspring_services.api.schemas.jobs import (
    MOST_IN_BATCH,
    Job,
    JobEditIn,
    JobIn,
    JobList,
    JobPage,
    JobQuery,
    JobResult,
    JobWhy,
    JobWithHistory,
    NewJobs,
    attempt_out,
    event_out,
    job_out,
)
from mainspring_services.api.state import ApiState, State
from mainspring_services.api.tracing import traced_submit

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], responses=USUAL_PROBLEMS)
RESULT_POLL_SECONDS = 0.1
EXAMPLE = {"task": "billing.charge", "payload": {"customer": "6f1f2e9c", "cents": 990}, "queue": "billing"}
UNIQUE = {"Unique-Job": {"description": "What was done: `keep`, `replace`, `postpone`.", "schema": {"type": "string"}}}
LOCATION = {"Location": {"description": "The job's own address.", "schema": {"type": "string"}}}


@router.post(
    "",
    status_code=201,
    response_class=Response,
    responses={
        200: {"model": Job, "description": "A unique job that was there already.", "headers": LOCATION | UNIQUE},
        201: {"model": Job, "description": "Accepted, and durable.", "headers": LOCATION | REPLAYED},
        **answers(409, 429),
        **BODY_PROBLEMS,
    },
    openapi_extra={**takes(JobIn, EXAMPLE), "parameters": [KEY]},
    dependencies=[SUBMITS],
)
async def submit(request: Request, state: State) -> Response:
    """Submit a job."""
    one: JobRequest = parsed(JobIn, await read_json(request)).request(request.headers.get("idempotency-key"))
    state.schemas.check(one)
    with traced_submit(request, one.queue) as (span, traceparent):
        accepted = await state.submitter.submit(one.with_options(traceparent=traceparent))
        span.set_attributes({"messaging.message.id": str(accepted.id), "mainspring.task": one.task})
    headers = {"Location": f"/v1/jobs/{accepted.id}"} | replayed(accepted.is_replayed)
    if accepted.unique is not None:
        headers["Unique-Job"] = accepted.unique
    return Response(accepted.answer, 200 if accepted.unique else 201, headers, media_type="application/json")


@router.post(
    "/batch",
    status_code=201,
    response_class=Response,
    responses={
        201: {"model": JobList, "description": "All are accepted, and durable."},
        **answers(409, 429),
        **BODY_PROBLEMS,
    },
    openapi_extra=takes(NewJobs, {"jobs": [EXAMPLE]}),
    dependencies=[SUBMITS],
)
async def submit_batch(request: Request, state: State) -> Response:
    """Submit up to 10,000 jobs, all or none; each may have an `idempotency_key`, and be `unique`."""
    body = await read_json(request)
    entries = body.get("jobs") if isinstance(body, dict) else None
    if not isinstance(entries, list) or not entries:
        raise InvalidInput("jobs", "must be a list with at least one job")
    if len(entries) > MOST_IN_BATCH:
        raise InvalidInput("jobs", f"at most {MOST_IN_BATCH}, not {len(entries)}")
    if extra := sorted(set(body) - {"jobs"}):
        raise InvalidInput(extra[0][:100], "is none of this request's fields")
    requests = [_batch_entry(index, entry, state) for index, entry in enumerate(entries)]
    with traced_submit(request) as (span, traceparent):
        accepted = await state.submitter.submit_many([one.with_options(traceparent=traceparent) for one in requests])
        span.set_attribute("messaging.batch.message_count", len(accepted))
    return Response(_batch_answer(accepted), 201, media_type="application/json")


def _batch_entry(index: int, entry: Any, state: ApiState) -> JobRequest:
    try:
        one: JobRequest = parsed(JobIn, entry).request()
        state.schemas.check(one)
    except InvalidInput as error:
        raise InvalidInput(f"jobs.{index}.{error.field}", error.message) from None
    return one


def _batch_answer(accepted: list[Accepted]) -> str:
    return '{"jobs": [' + ", ".join(one.answer for one in accepted) + "]}"


@router.get("", response_model=JobPage, dependencies=[READS])
async def list_page(state: State, asked: Annotated[JobQuery, Query()]) -> dict[str, Any]:
    """Jobs that pass all filters, the newest first."""
    wanted, limit = asked.filter(), asked.limit
    rows = await state.database.run(lambda connection: job_lists.page(connection, wanted, asked.cursor, limit))
    return {"items": [job_out(row) for row in rows], "next": str(rows[-1]["id"]) if len(rows) == limit else None}


@router.get("/{job_id}", response_model=JobWithHistory, responses=answers(404), dependencies=[READS])
async def show(job_id: UUID, state: State) -> dict[str, Any]:
    """A job with its attempts and events."""

    async def work(connection: Conn) -> dict[str, Any]:
        row = await jobs.get(connection, job_id)
        if row is None:
            raise NotFound(f"no job {job_id}")
        return job_out(row) | {
            "attempts": [attempt_out(one) for one in await attempts.attempts_of(connection, job_id)],
            "events": [event_out(one) for one in await jobs.events_of(connection, job_id)],
        }

    return await state.database.run(work)


@router.get(
    "/{job_id}/result",
    response_model=JobResult,
    responses={
        200: {"description": "It has succeeded."},
        202: {"model": JobResult, "description": "It has not ended yet."},
        410: {"model": JobResult, "description": "It is dead or cancelled."},
        **answers(404),
    },
    dependencies=[READS],
)
async def result(
    job_id: UUID,
    state: State,
    response: Response,
    wait: Annotated[float, Query(ge=0, le=60, description="Seconds to wait for the end.")] = 0,
) -> dict[str, Any]:
    """The result: 200 when done, 202 when not yet, 410 when the job is dead or cancelled."""
    deadline = asyncio.get_running_loop().time() + wait
    while True:
        job = job_out(await _found(state, job_id))
        if job["state"] in FINAL or asyncio.get_running_loop().time() >= deadline:
            response.status_code = _status_of(job["state"])
            return job
        await asyncio.sleep(RESULT_POLL_SECONDS)


def _status_of(state: str) -> int:
    if state == JobState.SUCCEEDED:
        return 200
    return 410 if state in FINAL else 202


@router.get("/{job_id}/why", response_model=JobWhy, responses=answers(404), dependencies=[READS])
async def why(job_id: UUID, state: State) -> dict[str, Any]:
    """Why a job isn't running: what stands before it, the first first. Empty: it starts at once, or has ended."""

    async def work(connection: Conn) -> dict[str, Any]:
        facts = await why_store.facts_of(connection, job_id)
        if facts is not None:
            return {"id": job_id, "state": facts.state, "blockers": [asdict(one) for one in explain(facts)]}
        ended = await jobs.state_of(connection, job_id)
        if ended is None:
            raise NotFound(f"no job {job_id}")
        return {"id": job_id, "state": ended, "blockers": []}

    return await state.database.run(work)


@router.patch(
    "/{job_id}",
    response_model=JobWithHistory,
    responses={**answers(404, 409), **BODY_PROBLEMS},
    openapi_extra=takes(JobEditIn, {"priority": 0, "run_at": "2030-01-31T09:00:00Z"}),
)
async def edit(job_id: UUID, request: Request, state: State, author: Operator) -> dict[str, Any]:
    """Change the priority, the time or the payload of a job that waits or retries."""
    given: JobEditIn = parsed(JobEditIn, await read_json(request))
    change = given.edit()
    is_changed = False
    while not is_changed:
        # When it isn't, it began or was kept back in between: it is judged again.
        _check_editable(await _found(state, job_id), change, state)
        is_changed = await state.database.run(lambda connection: jobs.edit(connection, job_id, change, author))
    state.wake.call()
    return await show(job_id, state)


def _check_editable(row: Any, change: JobEdit, state: ApiState) -> None:
    if row["state"] not in WAITING:
        raise Conflict(f"job {row['id']} is {row['state']}: only a job that waits or retries can be changed")
    if row["reason"] == "overlap" and change.run_at is not None:
        raise Conflict(f"job {row['id']} is kept back until earlier jobs of its schedule have ended")
    if change.payload is not None:
        state.schemas.check(JobRequest(row["task"], change.payload))


async def _found(state: ApiState, job_id: UUID) -> Any:
    row = await state.database.run(lambda connection: jobs.get(connection, job_id))
    if row is None:
        raise NotFound(f"no job {job_id}")
    return row


@router.post("/{job_id}/cancel", response_model=JobWithHistory, responses=answers(404, 409))
async def cancel(job_id: UUID, state: State, author: Operator) -> dict[str, Any]:
    """Cancel: at once when it waits; a running one is asked to stop, and stays `running` until it has."""
    found = await state.database.run_in_transaction(lambda connection: jobs.cancel(connection, job_id, author))
    if found is None:
        raise NotFound(f"no job {job_id}")
    if found in FINAL and found is not JobState.CANCELLED:
        raise Conflict(f"job {job_id} is {found} already")
    return await show(job_id, state)


@router.post("/{job_id}/retry", response_model=JobWithHistory, responses=answers(404, 409))
async def retry(job_id: UUID, state: State, author: Operator) -> dict[str, Any]:
    """Redrive a dead or cancelled job; make a retrying one due now."""

    async def work(connection: Conn) -> bool:
        return await jobs.redrive(connection, job_id, author) or await jobs.hasten_retry(connection, job_id, author)

    async with traced(state.database, Operation.REDRIVE, None, [job_id]):
        is_changed = await state.database.run_in_transaction(work)
    if not is_changed:
        found = await state.database.run(lambda connection: jobs.state_of(connection, job_id))
        if found is None:
            raise NotFound(f"no job {job_id}")
        raise Conflict(f"job {job_id} is {found}: only a dead, cancelled or retrying job can be retried")
    state.wake.call()
    return await show(job_id, state)
