"""A private PgBouncer in front of a Postgres."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from mainspring.devstack.ports import free_ports

from .debian import program

CONFIG = """
[databases]
* = user={user} host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
unix_socket_dir =
logfile = {folder}/log
{more}
"""


@contextlib.contextmanager
def pgbouncer(database_url: str, *, connections: int, more: str = "") -> Iterator[str]:
    """The URL of the same database through a PgBouncer in transaction mode with so many server connections."""
    executable = program("pgbouncer", "/usr/sbin/pgbouncer")
    url = urlsplit(database_url)
    (listen,) = free_ports(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "pgbouncer.ini"
        # Its databases are named like those behind it; it logs in as the URL does.
        values = {"user": url.username, "host": url.hostname, "port": url.port, "listen": listen, "folder": folder}
        config.write_text(CONFIG.format(**values, connections=connections, more=more))
        folder.chmod(0o777)
        command = [str(executable), "-q", str(config)]
        # It refuses to run as root.
        user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        with subprocess.Popen(command, user=user, stderr=subprocess.DEVNULL) as process:
            try:
                _wait_for(listen)
                yield url._replace(netloc=f"{url.username}@127.0.0.1:{listen}").geturl()
            finally:
                process.terminate()


def _wait_for(port: int) -> None:
    give_up_at = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(0.02)
        else:
            return
