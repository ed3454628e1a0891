"""JSON log lines on stderr, one object a line, with the service's name and whatever the caller binds.

The standard library's loggers (drivers, uvicorn, users' code) come out in the same form.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

Logger = structlog.stdlib.BoundLogger


def configure(service: str, level: str = "INFO") -> None:
    """Send every log line of this process to stderr as JSON. Call it once, from a service's start."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(ensure_ascii=True),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # Drivers log each reconnect with a traceback; the seams above say the same in one line.
    for noisy in ("aio_pika", "aiormq", "uvicorn.access", "httpx", "httpcore"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL if noisy.startswith("aio") else logging.WARNING)
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(service=service)


def get_logger(name: str) -> Logger:
    """A logger for one module."""
    logger: Logger = structlog.stdlib.get_logger(name)
    return logger
