"""The faults that only some mixes have: a cluster's nodes, a standby that takes over, clocks, releases, a network."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from mainspring.devstack import RabbitMQ
from tests.tools.tcp_proxy import FAIR, Weather

from .mix import Mix
from .registry import fault

if TYPE_CHECKING:
    from .world import World

SKEW_SECONDS = 300


def _has_cluster(mix: Mix) -> bool:
    return mix.broker == "cluster"


def _has_standby(mix: Mix) -> bool:
    return mix.postgres == "standby"


def _has_clocks(mix: Mix) -> bool:
    return mix.clocks


def _has_versions(mix: Mix) -> bool:
    return mix.versions


def _has_network(mix: Mix) -> bool:
    return mix.network


def _under(world: World, dice: random.Random, weather: Weather) -> None:
    """One of the two servers is reached in this weather for some seconds; then its connections begin anew.

    What was swallowed is gone for good, which no real network does to a connection that lives on.
    """
    proxy = dice.choice(world.proxies)
    proxy.weather = weather
    time.sleep(dice.uniform(1, 8))
    proxy.weather = FAIR
    if weather.swallows_requests or weather.swallows_answers:
        proxy.cut(reset=dice.random() < 0.5)


def _node(world: World, dice: random.Random) -> RabbitMQ:
    return dice.choice(world.servers.cluster.nodes)


@fault(_has_cluster)
def kill_node(world: World, dice: random.Random) -> None:
    """SIGKILL to one node of three; it comes back with its data."""
    one = _node(world, dice)
    one.kill()
    time.sleep(dice.uniform(0, 6))
    one.start()
    world.servers.cluster.wait_whole()


@fault(_has_cluster)
def restart_node(world: World, dice: random.Random) -> None:
    """An orderly restart of one node: an upgrade of the broker."""
    _node(world, dice).restart()
    world.servers.cluster.wait_whole()


@fault(_has_cluster)
def freeze_node(world: World, dice: random.Random) -> None:
    """One node hangs: its connections stay open, and the others elect leaders without it."""
    one = _node(world, dice)
    one.freeze()
    time.sleep(dice.uniform(1, 12))
    one.thaw()
    world.servers.cluster.wait_whole()


@fault(_has_cluster)
def cut_off_node(world: World, dice: random.Random) -> None:
    """A partition: one node loses the two others, pauses, and comes back when it is healed."""
    one = _node(world, dice)
    world.servers.cluster.cut_off(one)
    time.sleep(dice.uniform(1, 12))
    world.servers.cluster.heal(one)
    world.servers.cluster.wait_whole()


@fault(_has_standby)
def lose_primary(world: World, _: random.Random) -> None:
    """SIGKILL to Postgres's primary for good: the standby is promoted, and gets a standby of its own."""
    pair = world.servers.pair
    pair.fail_over(pair.kill)


@fault(_has_standby)
def hang_primary(world: World, dice: random.Random) -> None:
    """The primary hangs, as a machine without power: the standby is promoted, and the old one ended only later."""
    pair = world.servers.pair
    pair.fail_over(pair.freeze, lambda: time.sleep(dice.uniform(0, 12)))


@fault(_has_clocks)
def skew_clock(world: World, dice: random.Random) -> None:
    """A service's clock jumps five minutes ahead or behind, and back, while it runs."""
    one = dice.choice(world.fleet.services)
    world.skew(one, dice.choice([-SKEW_SECONDS, SKEW_SECONDS]))
    time.sleep(dice.uniform(2, 12))
    world.skew(one, 0)


@fault(_has_versions)
def swap_version(world: World, dice: random.Random) -> None:
    """SIGTERM to a service, and a new start with the other release: an upgrade, or one that is taken back."""
    world.swap_version(dice.choice(world.fleet.services))


@fault(_has_versions)
def migrate_again(world: World, dice: random.Random) -> None:
    """`mainspring migrate` while work goes on, also that of the older release."""
    world.migrate(is_old=dice.random() < 0.5)


@fault(_has_network)
def lose_requests(world: World, dice: random.Random) -> None:
    """What services send to a server is swallowed: they believe that it arrived."""
    _under(world, dice, Weather(swallows_requests=True))


@fault(_has_network)
def lose_answers(world: World, dice: random.Random) -> None:
    """What a server answers is swallowed: it was done, and nobody hears of it."""
    _under(world, dice, Weather(swallows_answers=True))


@fault(_has_network)
def delay_network(world: World, dice: random.Random) -> None:
    """Every chunk is late."""
    _under(world, dice, Weather(delay=dice.uniform(0.05, 1)))


@fault(_has_network)
def trickle_network(world: World, dice: random.Random) -> None:
    """Few bytes a second come through."""
    _under(world, dice, Weather(rate=dice.randint(1, 20) * 1000))


@fault(_has_network)
def refuse_network(world: World, dice: random.Random) -> None:
    """Every connection is cut, and new ones are refused for a while."""
    proxy = dice.choice(world.proxies)
    proxy.weather = Weather(refuses=True)
    proxy.cut()
    time.sleep(dice.uniform(0, 6))
    proxy.weather = FAIR


@fault(_has_network)
def reset_network(world: World, _: random.Random) -> None:
    """Every connection to either server is reset."""
    for proxy in world.proxies:
        proxy.cut(reset=True)
