"""The compose file from outside: it comes up, does its work, loses containers and no job, and goes without a trace."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from .compose import ROOT, Project, running_project

pytestmark = pytest.mark.timeout(600)
FORGET_QUEUE = "DELETE FROM mainspring.queues WHERE name = 'hello'"
SERVICES = ["api", "scheduler", "dispatcher", "worker", "dlq-handler"]


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with running_project() as one:
        yield one
    left = [
        subprocess.run(
            ["docker", kind, "ls", "--quiet", *more, "--filter", f"label=com.docker.compose.project={one.name}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for kind, more in (("container", ["--all"]), ("volume", []), ("network", []))
    ]
    assert left == ["", "", ""]


def test_the_curl_of_the_readme_works(project: Project) -> None:
    (line,) = re.findall(r"^curl -X POST http://127\.0\.0\.1:8080/v1/jobs(?:.*\\\n)*.*$", README, re.MULTILINE)
    command = shlex.split(line.replace("\\\n", "").replace("http://127.0.0.1:8080", project.url()))
    done = subprocess.run([*command, "--silent", "--fail"], capture_output=True, check=True, text=True)
    job_id = re.search(r'"id": "([0-9a-f-]+)"', done.stdout)
    assert job_id is not None
    result = project.ask("GET", f"/v1/jobs/{job_id[1]}/result", params={"wait": 30})
    assert result["result"] == "Hello, you! This was attempt 1."


README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_can_do_no_more_than_it_needs(project: Project, service: str) -> None:
    for one in project.containers(service):
        host = one["HostConfig"]
        assert one["Config"]["User"] == "10001"
        assert host["ReadonlyRootfs"]
        assert host["CapDrop"] == ["ALL"]
        assert host["Memory"] > 0
        assert host["RestartPolicy"]["Name"] == "unless-stopped"
        assert one["State"]["Health"]["Status"] == "healthy"


def test_nothing_is_published_beyond_this_machine(project: Project) -> None:
    for service in [*SERVICES, "postgres", "rabbitmq", "prometheus"]:
        for one in project.containers(service):
            published = [place for places in one["HostConfig"]["PortBindings"].values() for place in places or []]
            assert {place["HostIp"] for place in published} <= {"127.0.0.1"}


def test_every_image_is_pinned(project: Project) -> None:
    names = project.compose("--profile", "traces", "config", "--images").split()
    for name in names:
        assert name.startswith("mainspring-") or re.search(r":[\w.-]*\d", name), name


def test_doctor_finds_all_well(project: Project) -> None:
    # Another test may just have taken the worker's container away: then it says so, and is right.
    assert "ok" in project.until(lambda: project.compose("exec", "-T", "api", "mainspring", "doctor"))


def test_prometheus_sees_every_service(project: Project) -> None:
    def services() -> Any:
        answer = httpx.get(f"{project.url('_PROMETHEUS')}/api/v1/query", params={"query": "up == 1"}).json()
        return {one["metric"]["service"] for one in answer["data"]["result"]} >= set(SERVICES)

    project.until(services)


def test_containers_die_and_no_job_is_lost(project: Project) -> None:
    ids = [project.submit(name=f"{number}") for number in range(50)]
    for service in ("worker", "dispatcher", "scheduler", "rabbitmq", "dlq-handler"):
        project.compose("kill", service)
        ids += [project.submit(name=f"while {service} is away {number}") for number in range(10)]
        project.compose("start", service)
    for job_id in ids:
        state = project.until(lambda one=job_id: project.ask("GET", f"/v1/jobs/{one}/result", params={"wait": 10}), 120)
        assert state["state"] == "succeeded"


def test_postgres_is_killed_and_keeps_what_it_committed(project: Project) -> None:
    before = project.submit(name="before")
    project.compose("kill", "postgres")
    project.compose("start", "postgres")
    found = project.until(lambda: project.ask("GET", f"/v1/jobs/{before}/result", params={"wait": 30}))
    assert found["state"] == "succeeded"
    after = project.until(lambda: project.submit(name="after"))
    done = project.until(lambda: project.ask("GET", f"/v1/jobs/{after}/result", params={"wait": 30}))
    assert done["state"] == "succeeded"


def test_more_workers_share_the_work(project: Project) -> None:
    project.compose("up", "--wait", "--no-recreate", "--scale", "worker=3")
    project.until(lambda: len(project.ask("GET", "/v1/workers")["items"]) == 3)
    body = {"jobs": [{"task": "hello", "payload": {"name": str(number)}} for number in range(600)]}
    jobs = project.ask("POST", "/v1/jobs/batch", json=body)["jobs"]

    def workers() -> set[str]:
        done = [project.ask("GET", f"/v1/jobs/{job['id']}") for job in jobs[::20]]
        assert {one["state"] for one in done} == {"succeeded"}
        return {one["worker"] for one in done}

    assert len(project.until(workers)) > 1
    project.compose("up", "--wait", "--no-recreate", "--scale", "worker=1")
    project.until(lambda: len(project.ask("GET", "/v1/workers")["items"]) == 1)


def test_one_s_own_tasks_run_from_one_s_own_folder(project: Project, tmp_path: Path) -> None:
    (tmp_path / "myapp").mkdir()
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o755)
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "myapp" / "tasks.py").write_text(code)
    own = {"MAINSPRING_CODE": str(tmp_path), "MAINSPRING_WORKER_MODULES": "myapp.tasks"}
    mine = replace(project, environment=project.environment | own)
    mine.compose("up", "--wait")
    job = mine.ask("POST", "/v1/jobs", json={"task": "hello.greet", "payload": {"name": "Ada"}})
    done = mine.until(lambda: mine.ask("GET", f"/v1/jobs/{job['id']}/result", params={"wait": 30}))
    assert done["result"] == "Hello Ada, this is attempt 1"
    project.compose("up", "--wait")  # the other tests want their own tasks back
    # Nobody serves the queue of this one's any more, which doctor would rightly say.
    project.compose("exec", "-T", "postgres", "psql", "-U", "mainspring", "-c", FORGET_QUEUE)
