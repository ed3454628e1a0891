"""The ASGI application: routes, problems, health."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from mainspring.domain.zones import zone_data_version
from mainspring.telemetry import metrics
from mainspring_services.api import openapi, problems
from mainspring_services.api.routes import dead_letters, events, fleet, jobs, queues, schedules
from mainspring_services.api.settings import ApiSettings
from mainspring_services.api.state import ApiState
from mainspring_services.api.tracing import request_spans


def make_app(parts: ApiState, settings: ApiSettings) -> FastAPI:
    """The application over these parts."""
    app = FastAPI(title="Mainspring", version=version("mainspring"), redoc_url=None, telemetry=request_spans())
    app.state.parts = parts
    app.state.settings = settings
    app.state.keys = parts.keys
    problems.install(app)
    openapi.install(app)
    for module in (jobs, schedules, queues, dead_letters, fleet, events):
        app.include_router(module.router)

    @app.get("/livez", include_in_schema=False)
    async def livez() -> dict[str, bool]:
        return {"live": True}

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> JSONResponse:
        status, body = parts.health.report()
        return JSONResponse(body | {"zone_data": zone_data_version()}, status)

    @app.get("/metrics", include_in_schema=False)
    async def exposition() -> Response:
        return Response(metrics.exposition(), media_type=metrics.CONTENT_TYPE)

    return app
