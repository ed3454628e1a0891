"""The protocol as a small machine whose every run can be tried.

``one_job`` is one job, its messages, a scheduler, a dispatcher and two workers, with crashes, lost replies, frozen
processes, a wiped broker, and people who cancel and redrive. ``one_key`` is two jobs that share a concurrency limit of
one. ``checker`` walks all states breadth-first, so the first counterexample that it meets is a shortest one.

A state holds no fence: tickets and the fences that workers believe in are said by their age (``Ticket``), which is all
that any guard compares. The two workers are alike, so a state and its mirror image are one. Of equal messages the
queues keep a few, for a further copy does what these do.

What a timer needs to be fast enough for is an assumption here, not a result: a lost reply to a claim is asked for again
within the lease, and a runner that may not be trusted any more has ended before its lease has.
"""
