"""The client of a chaos run: submits jobs, insists on answers, and remembers what it was promised."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from .world import World


class Client(threading.Thread):
    """Submits jobs at an even pace, each under a key of its own, and insists on an answer."""

    def __init__(self, world: World, jobs: int, seed: int, seconds: float) -> None:
        super().__init__(name="client")
        self._world, self._jobs, self._pause = world, jobs, seconds / jobs
        self._dice = random.Random(seed)
        self._seed = seed
        #: The final state that each accepted job must reach.
        self.accepted: dict[str, str] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Submit all of them."""
        started = time.monotonic()
        try:
            for number in range(self._jobs):
                # What couldn't be submitted in time follows at once.
                time.sleep(max(0.0, started + number * self._pause - time.monotonic()))
                task, payload, expected = self._draw()
                headers = {"Idempotency-Key": f"chaos-{self._seed}-{number}"}
                body = {"task": task, "payload": payload}
                if task == "chaos.limited":
                    body["queue"] = "narrow"
                job = self._world.insist("POST", "/v1/jobs", json=body, headers=headers)
                self.accepted[job["id"]] = expected
        except BaseException as error:  # noqa: BLE001  raised again where the thread is joined
            self.failure = error

    def _draw(self) -> tuple[str, dict[str, Any], str]:
        dice = self._dice
        newer = self._world.is_of_one_release
        return dice.choices(
            [
                ("chaos.quick", {}, "succeeded"),
                ("chaos.slow", {"seconds": round(dice.uniform(0, 2), 2)}, "succeeded"),
                ("chaos.flaky", {"failures": dice.randint(1, 2)}, "succeeded"),
                ("chaos.thread", {"seconds": round(dice.uniform(0, 0.5), 2)}, "succeeded"),
                ("chaos.limited", {"key": dice.choice("abcdef")}, "succeeded"),
                ("chaos.rated", {}, "succeeded"),
                ("chaos.hopeless", {}, "dead"),
                ("chaos.batched", {"failures": dice.choice([0, 0, 0, 1])}, "succeeded"),
                ("chaos.shaky", {}, "succeeded"),
            ],
            [45, 15, 15, 5, 10, 5, 5, 15 * newer, 5 * newer],
        )[0]
