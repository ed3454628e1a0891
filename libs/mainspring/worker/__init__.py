"""The engine that runs users' code: a supervisor process and its runner processes.

The supervisor owns the broker connection, the claims, the heartbeats and the settlements, and never imports
users' code. Runners execute it: async handlers on a runner's loop, sync handlers in its threads. A handler
that blocks, spins, exits or segfaults can't starve a heartbeat, and a deadline can always be enforced.

A job's way: ``intake`` (message → claim) → ``runner_pool`` (→ ``runner`` process → ``executor``) → ``reporter``
(→ settlement, then acknowledgement). Beside it ``lease_keeper`` extends the leases, ``deadlines`` ends what
overruns, and each runner's ``watchdog`` ends a runner that its supervisor has lost.
"""
