"""When: schedules become jobs, due jobs go to the broker, expired leases and lost messages are found.

Every loop may run in any number of schedulers; only the leader's duties have one holder at a time.
"""
