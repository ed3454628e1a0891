"""The rules of the scheduler as pure values and functions: no I/O, no clock, no randomness of its own."""
