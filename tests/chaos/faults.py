"""The faults of a chaos run: each is a function of the world and of dice, and ends with everything running again."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mainspring.devstack.errors import RefusedError
from mainspring.devstack.fleet import ServiceProcess

from . import mix_faults  # noqa: F401  registers its kinds
from .mix import ONE, Mix
from .registry import FAULTS, fault

if TYPE_CHECKING:
    from .world import World

#: Longer than the run's lease of 4 s.
FREEZE_SECONDS = (0.5, 6.0)
#: How many faults of a mix are of the kinds that only such a mix has.
OWN_SHARE = 0.5


def _has_one_broker(mix: Mix) -> bool:
    return mix.broker == "one"


def _service(world: World, dice: random.Random) -> ServiceProcess:
    return dice.choice(world.fleet.services)


def _busy_worker(world: World, dice: random.Random) -> ServiceProcess:
    """A worker that runs a job at this moment, if one comes to run one within a few seconds."""
    running = (
        "SELECT workers.pid FROM mainspring.live_jobs JOIN mainspring.workers ON workers.id = live_jobs.worker"
        " WHERE live_jobs.state = 'running' ORDER BY live_jobs.started_at DESC LIMIT 1"
    )
    give_up_at = time.monotonic() + 5
    while time.monotonic() < give_up_at:
        found = [one for one in world.workers if str(one.pid) == world.query(running)]
        if found:
            return found[0]
    return dice.choice(world.workers)


def _freeze(one: ServiceProcess, dice: random.Random) -> None:
    one.freeze()
    time.sleep(dice.uniform(*FREEZE_SECONDS))
    one.thaw()


def _stop(one: ServiceProcess, world: World) -> None:
    world.stop(one)
    one.start()


@fault()
def kill(world: World, dice: random.Random) -> None:
    """SIGKILL to any service; a worker's runners are told by their closed pipe."""
    one = _service(world, dice)
    one.kill()
    time.sleep(dice.uniform(0, 2))
    one.start()


@fault()
def kill_worker(world: World, dice: random.Random) -> None:
    """SIGKILL to a worker while it has work."""
    one = _busy_worker(world, dice)
    one.kill()
    one.start()


@fault()
def freeze(world: World, dice: random.Random) -> None:
    """SIGSTOP, mostly for longer than a lease, then SIGCONT: the zombie that comes back."""
    _freeze(_service(world, dice), dice)


@fault()
def freeze_worker(world: World, dice: random.Random) -> None:
    """A worker's supervisor alone stands still; its runners must end themselves in time."""
    _freeze(_busy_worker(world, dice), dice)


@fault()
def stop(world: World, dice: random.Random) -> None:
    """SIGTERM and a new start: a deployment."""
    _stop(_service(world, dice), world)


@fault()
def stop_worker(world: World, dice: random.Random) -> None:
    """SIGTERM to a worker while it has work."""
    _stop(_busy_worker(world, dice), world)


@fault(_has_one_broker)
def restart_broker(world: World, _: random.Random) -> None:
    """An orderly restart of RabbitMQ."""
    world.servers.broker.restart()


@fault(_has_one_broker)
def kill_broker(world: World, _: random.Random) -> None:
    """SIGKILL to RabbitMQ; its data stays. A queue that was just declared loses its leader for ever (RabbitMQ 3.10)."""
    world.servers.broker.kill()
    world.servers.broker.start()


@fault(_has_one_broker)
def wipe_broker(world: World, _: random.Random) -> None:
    """RabbitMQ loses everything."""
    world.servers.broker.wipe()


@fault()
def delete_queue(world: World, dice: random.Random) -> None:
    """Somebody deletes a queue, with what is in it."""
    with suppress(RefusedError):
        if queues := world.queues():  # none yet, just after the broker was wiped
            world.servers.rabbitmq.delete_queue("/", dice.choice(queues))


@fault()
def cut_connections(world: World, _: random.Random) -> None:
    """All AMQP connections are cut."""
    with suppress(RefusedError):
        world.servers.rabbitmq.close_connections("/")


@fault(_has_one_broker)
def freeze_broker(world: World, dice: random.Random) -> None:
    """RabbitMQ's connections stay open, and nothing answers."""
    world.servers.broker.freeze()
    time.sleep(dice.uniform(1, 8))
    world.servers.broker.thaw()


@fault()
def restart_postgres(world: World, _: random.Random) -> None:
    """An orderly restart of Postgres."""
    world.servers.postgres.restart()


@fault()
def kill_postgres(world: World, _: random.Random) -> None:
    """SIGKILL to Postgres and all its backends: it recovers from its log."""
    world.servers.postgres.kill()
    world.servers.postgres.start()


@fault()
def terminate_backends(world: World, _: random.Random) -> None:
    """Every connection to Postgres is ended."""
    world.query("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


@fault()
def read_only_postgres(world: World, dice: random.Random) -> None:
    """Postgres takes no writes for a while, as a standby that was failed over to."""
    _set_read_only(world, "on")
    time.sleep(dice.uniform(1, 8))
    _set_read_only(world, "off")


def _set_read_only(world: World, value: str) -> None:
    for sql in (f"ALTER SYSTEM SET default_transaction_read_only = {value}", "SELECT pg_reload_conf()"):
        world.query(sql)


@fault()
def freeze_postgres(world: World, dice: random.Random) -> None:
    """Postgres's connections stay open, and nothing answers."""
    world.servers.postgres.freeze()
    time.sleep(dice.uniform(0.5, 6))
    world.servers.postgres.thaw()


def kinds(mix: Mix = ONE) -> list[str]:
    """The names of the faults that a mix can have."""
    return sorted(name for name, one in FAULTS.items() if one.fits(mix))


def drawn(seed: int, only: Sequence[str], mix: Mix = ONE) -> Iterator[str]:
    """The faults of a run, in order, without end: the same for the same seed. Half are of the mix's own kinds."""
    dice = random.Random(seed)
    own = [] if only else sorted(set(kinds(mix)) - set(kinds(ONE)))
    others = sorted(only or set(kinds(mix)) - set(own))
    while True:
        yield dice.choice(own if own and dice.random() < OWN_SHARE else others)
