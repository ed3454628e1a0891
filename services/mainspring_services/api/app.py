"""The ASGI application: routes, problems, health."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from mainspring.runtime.forecast import Forecasts
from mainspring.telemetry import metrics
from mainspring_services.api import openapi, problems
from mainspring_services.api.routes import (
    bulk,
    calendars,
    circuits,
    dead_letters,
    events,
    fleet,
    forecast,
    jobs,
    limits,
    queues,
    retention,
    schedule_changes,
    schedules,
)
from mainspring_services.api.settings import ApiSettings
from mainspring_services.api.state import ApiState
from mainspring_services.api.tracing import request_spans


def make_app(parts: ApiState, settings: ApiSettings) -> FastAPI:
    """The application over these parts."""
    app = FastAPI(title="Mainspring", version=version("mainspring"), redoc_url=None, telemetry=request_spans())
    app.state.parts = parts
    app.state.settings = settings
    app.state.keys = parts.keys
    app.state.forecasts = Forecasts()
    problems.install(app)
    openapi.install(app)
    # The paths of all schedules come before those of one, whose name could be the same word.
    schedule_routes = schedule_changes, schedules, calendars
    for module in (
        jobs,
        *schedule_routes,
        queues,
        limits,
        circuits,
        dead_letters,
        bulk,
        retention,
        fleet,
        events,
        forecast,
    ):
        app.include_router(module.router)

    @app.get("/livez", include_in_schema=False)
    async def livez() -> dict[str, bool]:
        return {"live": True}

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> JSONResponse:
        status, body = parts.health.report()
        return JSONResponse(body, status)

    @app.get("/metrics", include_in_schema=False)
    async def exposition() -> Response:
        return Response(metrics.exposition(), media_type=metrics.CONTENT_TYPE)

    return app
