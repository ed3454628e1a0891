"""What a chaos run is made of: which servers, whose clocks, how many releases. A fault says for which mixes it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Mix:
    """One kind of world."""

    #: One RabbitMQ, or a cluster of three nodes whose quorum queues have three members.
    broker: Literal["one", "cluster"] = "one"
    #: One Postgres, or a primary and a synchronous standby that takes over.
    postgres: Literal["one", "standby"] = "one"
    #: Whether each service has a clock of its own, which can be wrong.
    clocks: bool = False
    #: Whether services of an older release run beside those of this one.
    versions: bool = False
    #: Whether the services reach each server through a proxy that can misbehave.
    network: bool = False


ONE = Mix()
MIXES: dict[str, Mix] = {
    "one": ONE,
    "cluster": Mix(broker="cluster"),
    "standby": Mix(postgres="standby"),
    "clocks": Mix(clocks=True),
    "versions": Mix(versions=True),
    "network": Mix(network=True),
    "cluster-standby": Mix(broker="cluster", postgres="standby"),
    "cluster-clocks": Mix(broker="cluster", clocks=True),
    "standby-clocks": Mix(postgres="standby", clocks=True),
    "standby-versions": Mix(postgres="standby", versions=True),
    "clocks-versions": Mix(clocks=True, versions=True),
    "all": Mix(broker="cluster", postgres="standby", clocks=True, versions=True),
}
