"""`python -m mainspring.devstack.run SCRIPT [ARGUMENT …]`: a script with two servers in its environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from mainspring.devstack import keeper
from mainspring.devstack.errors import DevstackError
from mainspring.devstack.stack import Stack, start_stack

_GRACE_SECONDS = 20.0


def main(argv: list[str]) -> int:
    """Run the script, end it with this process, and return its exit status."""
    if not argv:
        print(__doc__, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with start_stack() as stack:
            return _run_script(argv, stack)
    except DevstackError as error:
        print(f"mainspring: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run_script(argv: list[str], stack: Stack) -> int:
    # Marked as the workspace's: should this process be killed, the script goes with the servers.
    environment = {**os.environ, **stack.environment(), keeper.MARKER: str(stack.folder)}
    # In a group of its own: the terminal's Ctrl-C reaches it once, from here.
    script = subprocess.Popen([sys.executable, *argv], env=environment, process_group=0)
    try:
        return script.wait()
    finally:
        _end(script)


def _end(script: subprocess.Popen[bytes]) -> None:
    """Interrupt the script if it still runs, and kill it if that does not end it."""
    script.send_signal(signal.SIGINT)
    try:
        script.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        script.kill()
        script.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
