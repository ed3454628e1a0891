"""``mainspring keys``: straight to Postgres, since the first key can't be asked for with a key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from mainspring.cli.output import Json, say, show, show_list
from mainspring.domain.access import Scope
from mainspring.domain.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from mainspring.store.pool import Conn

app = typer.Typer(no_args_is_help=True, help="Look after API keys. Needs MAINSPRING_DATABASE_URL, not the api.")
T = TypeVar("T")


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose it is, such as `billing-service`; the history shows it.")],
    scope: Annotated[list[Scope], typer.Option(help="What it is good for; can be given several times.")],
    as_json: Json = False,
) -> None:
    """Make a key and print it. It is shown this once.

    Example: mainspring keys create billing-service --scope submit --scope read
    """
    from mainspring.store import api_keys

    if not (1 <= len(name) <= 100 and name.isprintable()):
        raise InvalidInput("name", "must be 1 to 100 printable characters")
    key_id, text = _ask(lambda connection: api_keys.create(connection, name, sorted(set(scope))))
    if as_json:
        show({"id": str(key_id), "name": name, "key": text, "scopes": sorted(set(scope))}, as_json)
        return
    print(text)
    say(f"the key {name} ({key_id}); it isn't shown again")


@app.command("list")
def list_all(as_json: Json = False) -> None:
    """All keys, the revoked ones too.

    Example: mainspring keys list
    """
    from mainspring.store import api_keys

    items = [_shown(row) for row in _ask(api_keys.list_all)]
    page = {"items": items, "next": None}
    show_list(page, ("id", "name", "scopes", "created_at", "last_used_at", "revoked_at"), as_json)


@app.command()
def revoke(key_id: UUID, as_json: Json = False) -> None:
    """Make a key useless, within two seconds.

    Example: mainspring keys revoke 01a228fd-d2d0-799d-870e-9d4fbcc2f891
    """
    from mainspring.store import api_keys

    if not _ask(lambda connection: api_keys.revoke(connection, key_id)):
        raise NotFound(f"no key {key_id}")
    show({"id": str(key_id), "revoked": True}, as_json)


def _shown(row: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": str(row["id"]), "name": row["name"], "scopes": list(row["scopes"])}
    for name in ("created_at", "last_used_at", "revoked_at"):
        shown[name] = row[name].isoformat() if row[name] else None
    return shown


def _ask(work: Callable[[Conn], Awaitable[T]]) -> T:
    # The drivers take long to load: commands that speak HTTP do without them.
    from mainspring.runtime.settings import Settings, read
    from mainspring.store.pool import Database

    async def ask() -> T:
        async with Database(read(Settings).database_url, "keys", most=1) as database:
            return await database.run(work)

    return asyncio.run(ask())
