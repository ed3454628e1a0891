"""Writes the pages that say what the code says: `make docs`. A test holds them against the code."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer.main
from typer.cli import get_docs_for_click

from mainspring.cli.main import app as command_line
from mainspring.domain.states import as_markdown
from mainspring_services.api.app import make_app
from mainspring_services.api.settings import ApiSettings

HERE = Path(__file__).parent
MODULES = ("mainspring", "mainspring.batches", "mainspring.client", "mainspring.testing")


def pages() -> dict[Path, str]:
    """Every generated page, by its path."""
    return {
        HERE / "state-machine.md": as_markdown(),
        HERE / "reference" / "http-api.md": http_api(),
        HERE / "reference" / "python.md": python_api(),
        HERE / "reference" / "command-line.md": commands(),
    }


def http_api() -> str:
    """The OpenAPI document as a page: every operation, its parameters, its body and its answers."""
    parts: Any = SimpleNamespace(keys=None)
    document = make_app(parts, ApiSettings()).openapi()
    lines = [
        "# HTTP API",
        "",
        "Generated from the OpenAPI document, which an api serves at `/openapi.json`; to read and try it: `/docs`.",
        "Errors are problem documents ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)); a 422 names each field.",
        "",
    ]
    for path, operations in sorted(document["paths"].items()):
        for method, one in operations.items():
            lines += _operation(f"{method.upper()} {path}", one)
    lines += ["# Schemas", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _schema(name, schema)
    return "\n".join(lines).rstrip() + "\n"


def _operation(title: str, one: dict[str, Any]) -> list[str]:
    lines = [f"## `{title}`", "", one["description"], ""]
    if parameters := one.get("parameters"):
        lines += ["| parameter | in | type | meaning |", "| --- | --- | --- | --- |"]
        for parameter in parameters:
            meaning = parameter.get("description", "") or ("the path's" if parameter["in"] == "path" else "")
            lines.append(f"| `{parameter['name']}` | {parameter['in']} | {_type(parameter['schema'])} | {meaning} |")
        lines.append("")
    if body := one.get("requestBody"):
        content = body["content"]["application/json"]
        lines += [f"Body: {_type(content['schema'])}, such as", "", "```json"]
        lines += [json.dumps(content["example"], indent=2), "```", ""]
    lines += ["| answer | meaning |", "| --- | --- |"]
    for status, answer in sorted(one["responses"].items()):
        schemas = {_type(content.get("schema", {})) for content in answer.get("content", {}).values()}
        meaning = answer["description"].replace("Successful Response", "Done")
        lines.append(f"| {status} {', '.join(sorted(schemas - {'any'}))} | {meaning} |")
    return [*lines, ""]


def _schema(name: str, schema: dict[str, Any]) -> list[str]:
    lines = [f"## {name}", "", schema.get("description", "").split("\n\n")[0], ""]
    if values := schema.get("enum"):
        return [*lines, ", ".join(f"`{value}`" for value in values), ""]
    lines += ["| field | type | meaning |", "| --- | --- | --- |"]
    for field, one in schema.get("properties", {}).items():
        default = one.get("default")
        shown = "" if default in (None, [], {}) else f"default `{json.dumps(default)}`"
        needed = "required" if field in schema.get("required", ()) and "default" not in one else ""
        meaning = "; ".join(filter(None, [one.get("description", "").rstrip("."), needed, shown]))
        lines.append(f"| `{field}` | {_type(one)} | {meaning} |")
    return [*lines, ""]


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_type(one) for one in choices))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format", kind)) if kind == "string" else str(kind)


def python_api() -> str:
    """What `__all__` of the public modules names, with signatures and docstrings."""
    lines = ["# Python", "", "Generated from what the public modules export.", ""]
    for name in MODULES:
        module = importlib.import_module(name)
        lines += [f"## {name}", "", f"```text\n{inspect.getdoc(module)}\n```", ""]
        for public in module.__all__:
            lines += _member(public, getattr(module, public))
    return "\n".join(lines).rstrip() + "\n"


def _member(name: str, value: Any) -> list[str]:
    signature = "" if not callable(value) else _signature(value)
    lines = [f"### {name}", "", f"```python\n{name}{signature}\n```", "", _words(value), ""]
    if inspect.isclass(value):
        fields = {key: kind for key, kind in inspect.get_annotations(value).items() if not key.startswith("_")}
        lines += [f"- `{key}: {kind}`" for key, kind in fields.items()]
        for method, member in vars(value).items():
            function = getattr(member, "__func__", member)
            if not method.startswith("_") and (inspect.isfunction(function) or isinstance(function, property)):
                shown = method if isinstance(function, property) else f"{method}{_signature(function)}"
                lines += [f"- `{shown}`", f"  {_words(function).replace(chr(10), chr(10) + '  ')}"]
        lines.append("")
    return lines


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value)).replace("'", "")
    except (TypeError, ValueError):
        return "(…)"


def _words(value: Any) -> str:
    return inspect.getdoc(value) or ""


def commands() -> str:
    """Every command with its arguments and options."""
    command = typer.main.get_command(command_line)
    context = typer.Context(command, info_name="mainspring")
    text = get_docs_for_click(obj=command, ctx=context, name="mainspring", title="Command line")
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
