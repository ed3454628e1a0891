"""What a route asks of its caller: one scope, and the caller's name for the history."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import Depends, Request

from mainspring.domain.access import Scope
from mainspring.runtime.key_ring import KeyRing


def _needs(scope: Scope) -> Any:
    async def caller(request: Request) -> str:
        keys = cast(KeyRing, request.app.state.keys)
        return await keys.caller(request.headers.get("authorization"), scope)

    return Depends(caller)


#: For ``dependencies`` of a route.
READS, SUBMITS, OPERATES = (_needs(scope) for scope in (Scope.READ, Scope.SUBMIT, Scope.OPERATE))
#: The name of a caller that may operate: a parameter of the routes that write it into the history.
Operator = Annotated[str, OPERATES]
