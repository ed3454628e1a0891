"""For processes under libfaketime, whose ``clock_nanosleep`` refuses what Python's ``time.sleep`` asks of it."""

import threading
import time


def _sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


time.sleep = _sleep
