"""TLS on every line: real certificates, real servers, and a stranger's certificate that is refused."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import trustme

from mainspring.broker import connection as broker
from mainspring.devstack import Stack, start_stack
from mainspring.devstack.fleet import ServiceProcess, open_fleet
from mainspring.devstack.ports import free_ports
from mainspring.devstack.process import unprivileged_account
from mainspring.domain.errors import BrokerUnavailable, DatabaseUnavailable
from mainspring.store import pool

pytestmark = pytest.mark.timeout(180)


@dataclass(frozen=True)
class Certificates:
    """A certificate authority, a server's certificate, and an authority that nobody trusts."""

    ca: Path
    cert: Path
    key: Path
    stranger: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("tls")
    made = Certificates(*(folder / f"{name}.pem" for name in ("ca", "cert", "key", "stranger")))
    authority = trustme.CA()
    one = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(made.ca)
    one.private_key_pem.write_to_path(made.key)
    for blob in one.cert_chain_pems:
        blob.write_to_path(made.cert, append=True)
    trustme.CA().cert_pem.write_to_path(made.stranger)
    for parent in list(folder.parents)[:3]:
        parent.chmod(0o755)
    folder.chmod(0o755)
    made.key.chmod(0o600)
    return made


@dataclass(frozen=True)
class Encrypted:
    """Both servers with TLS."""

    stack: Stack
    amqps_port: int

    def postgres_url(self, ca: Path) -> str:
        """Postgres, verified by this authority."""
        return f"{self.stack.postgres.url}?sslmode=verify-full&sslrootcert={ca}"

    def amqps_url(self, ca: Path | None) -> str:
        """RabbitMQ, verified by this authority or by those of the machine."""
        return f"amqps://guest:guest@127.0.0.1:{self.amqps_port}/" + (f"?cafile={ca}" if ca else "")


@pytest.fixture(scope="module")
def encrypted(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    """Both servers with TLS, with a key that only they may read."""
    folder = tmp_path_factory.mktemp("key")
    folder.chmod(0o755)
    key = folder / "key.pem"
    shutil.copy(certificates.key, key)
    key.chmod(0o600)
    if account := unprivileged_account():
        os.chown(key, account.uid, account.gid)
    (port,) = free_ports(1)
    rabbit = {
        "listeners.ssl.1": f"127.0.0.1:{port}",
        "ssl_options.cacertfile": str(certificates.ca),
        "ssl_options.certfile": str(certificates.cert),
        "ssl_options.keyfile": str(key),
    }
    postgres = {"ssl": "on", "ssl_cert_file": str(certificates.cert), "ssl_key_file": str(key)}
    with start_stack(durable=False, settings=postgres, config=rabbit) as stack:
        yield Encrypted(stack, port)


async def test_postgres_is_spoken_to_in_tls_and_its_certificate_is_checked(
    encrypted: Encrypted, certificates: Certificates
) -> None:
    connection = await pool.connect(encrypted.postgres_url(certificates.ca), "test")
    assert await connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    await connection.close()
    with pytest.raises(DatabaseUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await pool.connect(encrypted.postgres_url(certificates.stranger), "test")


async def test_rabbitmq_is_spoken_to_in_tls_and_its_certificate_is_checked(
    encrypted: Encrypted, certificates: Certificates
) -> None:
    link = await broker.connect(encrypted.amqps_url(certificates.ca), "test")
    await link.close()
    for url in (encrypted.amqps_url(certificates.stranger), encrypted.amqps_url(None)):
        with pytest.raises(BrokerUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await broker.connect(url, "test")


def test_a_job_runs_with_every_line_encrypted(encrypted: Encrypted, certificates: Certificates) -> None:
    urls = {
        "MAINSPRING_DATABASE_URL": encrypted.postgres_url(certificates.ca),
        "MAINSPRING_AMQP_URL": encrypted.amqps_url(certificates.ca),
    }
    here = str(Path(__file__).parents[1])
    with open_fleet(urls, encrypted.stack.folder, "tls", PYTHONPATH=here) as fleet:
        fleet.migrate()
        for name in ("scheduler", "dispatcher"):
            fleet.start(name)
        fleet.start("worker", "fleet_tasks", slots=2, runners=1)
        api = fleet.start("api", tls_cert=certificates.cert, tls_key=certificates.key)
        url = f"https://127.0.0.1:{api.port}"
        trusting = ssl.create_default_context(cafile=str(certificates.ca))
        with httpx.Client(base_url=url, verify=trusting, timeout=30) as http:
            _wait_until_it_answers(http, api)
            job = http.post(
                "/v1/jobs", json={"task": "fleet.add", "queue": "fleet", "payload": {"a": 1, "b": 2}}
            ).json()
            assert http.get(f"/v1/jobs/{job['id']}/result", params={"wait": 30}).json()["result"] == 3
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{url}/livez", verify=ssl.create_default_context(cafile=str(certificates.stranger)))
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"http://127.0.0.1:{api.port}/livez")
        environment = os.environ | {"MAINSPRING_API_URL": url, "SSL_CERT_FILE": str(certificates.ca)}
        command = [sys.executable, "-m", "mainspring.cli.main", "jobs", "show", job["id"], "--json"]
        assert subprocess.run(command, env=environment, capture_output=True, check=True).stdout.startswith(b"{")


def _wait_until_it_answers(http: httpx.Client, api: ServiceProcess) -> None:
    give_up_at = time.monotonic() + 30
    while True:
        try:
            if http.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert api.is_running, api.log_tail()
        assert time.monotonic() < give_up_at, api.log_tail()
        time.sleep(0.05)


@pytest.mark.parametrize("given", [{"tls_cert": "cert"}, {"tls_key": "key"}, {"tls_cert": "ca", "tls_key": "key"}])
def test_half_a_certificate_or_another_s_key_is_a_wrong_setting(
    certificates: Certificates, tmp_path: Path, given: dict[str, str]
) -> None:
    settings = {name: getattr(certificates, which) for name, which in given.items()}
    with open_fleet({}, tmp_path) as fleet:
        api = fleet.start("api", **settings)
        assert api.wait(20) == 2
        assert "MAINSPRING_API_TLS_CERT" in api.log_tail()
