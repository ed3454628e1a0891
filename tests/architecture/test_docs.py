"""The pages say what the code is: links, quoted code, settings, metrics and paths are held against it."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
from prometheus_client import Counter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mainspring import TaskRegistry
from mainspring.runtime.settings import Settings
from mainspring.telemetry import metrics
from mainspring_services.api.settings import ApiSettings
from mainspring_services.dispatcher.settings import DispatcherSettings
from mainspring_services.dlq_handler.settings import DlqHandlerSettings
from mainspring_services.scheduler.settings import SchedulerSettings
from mainspring_services.worker.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = ["billing", "reports", "thumbnails"]
SETTINGS: dict[str, type[Settings]] = {
    "api": ApiSettings,
    "dispatcher": DispatcherSettings,
    "dlq-handler": DlqHandlerSettings,
    "scheduler": SchedulerSettings,
    "worker": WorkerSettings,
}
#: Where the paths begin that a page names, as a person in the checkout would look for them.
BASES = ("", "libs/mainspring", "services")
#: Named by a page as something that the reader writes.
NOT_OURS = {"myapp/tasks.py", "shop/tasks.py"}
FENCE = re.compile(r"^```(\S*)[ ]*(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")


def name_of(page):
    return str(page.relative_to(ROOT))


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)
every_service = pytest.mark.parametrize("service", SETTINGS)


def prose(page):
    """The page without its code blocks."""
    return FENCE.sub("", page.read_text())


@every_page
def test_a_relative_link_leads_to_something(page):
    broken = [link for link in LINK.findall(prose(page)) if not (page.parent / link).exists()]
    assert broken == []


@every_page
def test_a_named_test_exists(page):
    named = re.findall(r"tests/[\w./-]*\w", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


@every_page
def test_a_named_file_of_ours_exists(page):
    named = set(re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|sql|md))`", prose(page))) - NOT_OURS
    assert [path for path in sorted(named) if not any((ROOT / base / path).exists() for base in BASES)] == []


def quoted():
    """The blocks of the README that name a file, as (file, code)."""
    return [(file, code) for _, file, code in FENCE.findall(README.read_text()) if file]


def test_the_readme_quotes_each_example_word_for_word():
    assert [file for file, code in quoted() if code not in (ROOT / file).read_text()] == []
    assert {file for file, _ in quoted()} == {f"docs/examples/{name}.py" for name in EXAMPLES}


def test_the_first_task_of_the_readme_is_a_task():
    (code,) = [code for kind, file, code in FENCE.findall(README.read_text()) if kind == "python" and not file]
    module = ModuleType("myapp.tasks")
    exec(compile(code, "myapp/tasks.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102  our own page
    registry = TaskRegistry()
    registry.add_module(module)
    (one,) = registry
    assert one.request(name="Ada").task == one.name
    assert f"mainspring submit {one.name} --payload '{one.request(name='Ada').payload}'".replace(":", ": ") in (
        README.read_text()
    )


def page_of(service):
    return ROOT / "docs" / "services" / f"{service}.md"


def variables_of(settings):
    """The environment variable of each field."""
    prefix = settings.model_config.get("env_prefix", "")
    fields = settings.model_fields.items()
    return {str(field.validation_alias or f"{prefix}{name}").upper(): field for name, field in fields}


def shown_default(field: FieldInfo):
    if field.default is PydanticUndefined:
        return "CPUs"
    if field.default in (None, ""):
        return "empty"
    return f"`{field.default:g}`" if isinstance(field.default, float) else f"`{field.default}`"


@every_service
def test_a_service_s_page_has_its_variables_with_their_defaults_and_no_others(service):
    rows = re.findall(r"^\| `(MAINSPRING_\w+)` \| (.+?) \| .+ \|$", page_of(service).read_text(), re.MULTILINE)
    fields = variables_of(SETTINGS[service])
    assert dict(rows) == {variable: shown_default(field) for variable, field in fields.items()}
    assert len(rows) == len(fields)


@every_service
def test_every_variable_that_a_service_s_page_names_is_one_of_its_own(service):
    named = set(re.findall(r"MAINSPRING_\w+", page_of(service).read_text()))
    assert named - variables_of(SETTINGS[service]).keys() == set()


def test_the_services_pages_have_every_metric_with_its_labels_and_no_others():
    instruments = [one for one in vars(metrics).values() if hasattr(one, "_labelnames")]
    expected = {
        one._name + ("_total" if isinstance(one, Counter) else ""): ", ".join(one._labelnames) for one in instruments
    }
    rows = [
        row
        for service in SETTINGS
        for row in re.findall(r"^\| `(mainspring_\w+)` \| (.*?) ?\| .+ \|$", page_of(service).read_text(), re.MULTILINE)
    ]
    assert dict(rows) == expected
    assert {name for name, _ in set(rows)} == expected.keys()
    assert len(set(rows)) == len(expected)
