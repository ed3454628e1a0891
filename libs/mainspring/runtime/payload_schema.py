"""Checking payloads against the task catalogue's schemas, so that a bad one is refused at the edge."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import jsonschema_rs

from mainspring.domain.errors import InvalidInput
from mainspring.domain.job import JobRequest
from mainspring.runtime.loop import Pass
from mainspring.store import fleet
from mainspring.store.pool import Database

REFRESH_SECONDS = 2.0


@dataclass(slots=True)
class PayloadSchemas:
    """The known schemas, refreshed as a loop. A task that isn't known takes any object."""

    database: Database
    _texts: dict[str, str] = field(default_factory=dict)
    _validators: dict[str, jsonschema_rs.Validator] = field(default_factory=dict)

    async def run_once(self) -> Pass:
        """Read the catalogue; compile what is new or changed."""
        schemas = await self.database.run(fleet.payload_schemas)
        texts = {name: json.dumps(schema, sort_keys=True) for name, schema in schemas.items()}
        changed = [name for name, text in texts.items() if self._texts.get(name) != text]
        for name in changed:
            self._validators[name] = jsonschema_rs.validator_for(schemas[name], validate_formats=True)
        for name in self._validators.keys() - texts.keys():
            del self._validators[name]
        self._texts = texts
        return Pass(done=len(changed))

    def check(self, request: JobRequest) -> None:
        """Raises InvalidInput naming ``payload.<field>``."""
        validator = self._validators.get(request.task)
        if validator is None:
            return
        for error in validator.iter_errors(json.loads(request.payload)):
            path = ".".join(["payload", *(str(part) for part in error.instance_path), *_named(error.kind)])
            raise InvalidInput(path, error.message[:500])


def _named(kind: object) -> list[str]:
    """The field that is missing, or the first that is one too many: the error stands at the object around it."""
    missing = getattr(kind, "property", None)
    extra = getattr(kind, "unexpected", None)
    return [str(missing)] if missing else [str(extra[0])] if extra else []
