"""/v1/circuits."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Request, Response

from mainspring.domain.circuit import CircuitState, check_circuit
from mainspring.domain.errors import Conflict, NotFound
from mainspring.store import circuits
from mainspring.store.circuits import StoredCircuit
from mainspring_services.api.access import OPERATES, READS, Operator
from mainspring_services.api.body import parsed, read_json
from mainspring_services.api.openapi import BODY_PROBLEMS, USUAL_PROBLEMS, answers, takes
from mainspring_services.api.schemas.circuits import CircuitIn, CircuitOpenIn, CircuitOut, Circuits
from mainspring_services.api.schemas.common import Name
from mainspring_services.api.state import ApiState, State

router = APIRouter(prefix="/v1/circuits", tags=["circuits"], responses=USUAL_PROBLEMS)


@router.get("", response_model=Circuits, dependencies=[READS])
async def list_all(state: State) -> dict[str, Any]:
    """All circuits that tasks depend on, by name."""
    return {"items": [_out(one) for one in await state.database.run(circuits.all_circuits)]}


@router.get("/{name}", response_model=CircuitOut, responses=answers(404), dependencies=[READS])
async def show(name: Name, state: State) -> dict[str, Any]:
    """A circuit."""
    return await _shown(state, name)


@router.put(
    "/{name}",
    response_model=CircuitOut,
    responses=BODY_PROBLEMS,
    openapi_extra=takes(CircuitIn, {"failures": 20, "period_seconds": 60, "share": 0.25, "hold_seconds": 30}),
    dependencies=[OPERATES],
)
async def save(name: Name, request: Request, state: State) -> dict[str, Any]:
    """Say when a circuit opens. It needn't be named by a task yet."""
    given: CircuitIn = parsed(CircuitIn, await read_json(request))
    terms = given.terms()
    check_circuit(name)
    await state.database.run_in_transaction(lambda connection: circuits.set_terms(connection, name, terms))
    return await _shown(state, name)


@router.post(
    "/{name}/open",
    response_model=CircuitOut,
    responses={**answers(404), **BODY_PROBLEMS},
    openapi_extra=takes(CircuitOpenIn, {"seconds": 3600, "note": "the provider is down until 14:00"}),
)
async def open_one(name: Name, request: Request, state: State, author: Operator) -> dict[str, Any]:
    """Hold the jobs of a circuit: what runs goes on, and nothing more starts until it is probed or closed."""
    given: CircuitOpenIn = parsed(CircuitOpenIn, await read_json(request))
    hold = timedelta(seconds=given.seconds)
    await state.database.run_in_transaction(
        lambda connection: circuits.open_for(connection, name, hold, author, given.note)
    )
    return await _shown(state, name)


@router.post("/{name}/close", response_model=CircuitOut, responses=answers(404), dependencies=[OPERATES])
async def close(name: Name, state: State) -> dict[str, Any]:
    """Close a circuit: all its jobs go on at once."""
    await state.database.run_in_transaction(lambda connection: circuits.close(connection, name))
    return await _shown(state, name)


@router.delete(
    "/{name}", status_code=204, response_class=Response, responses=answers(404, 409), dependencies=[OPERATES]
)
async def delete(name: Name, state: State) -> Response:
    """Forget a circuit that no task names (any more)."""
    if not await state.database.run_in_transaction(lambda connection: circuits.delete(connection, name)):
        raise Conflict(f"tasks name circuit {name}")
    return Response(status_code=204)


async def _shown(state: ApiState, name: str) -> dict[str, Any]:
    for one in await state.database.run(lambda connection: circuits.all_circuits(connection, name)):
        return _out(one)
    raise NotFound(f"no circuit {name}")


def _out(one: StoredCircuit) -> dict[str, Any]:
    circuit = one.circuit
    state = circuit.state(one.now)
    return asdict(circuit.terms) | {
        "name": circuit.name,
        "state": state,
        "tasks": one.tasks,
        "left": circuit.left(one.now),
        "probes": None if state is CircuitState.CLOSED else circuit.probes,
        "opened_at": circuit.opened_at,
        "probed_at": circuit.open_until,
        "opened_by": one.opened_by,
        "note": one.note,
        "last_error": one.last_error,
    }
