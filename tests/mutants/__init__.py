"""The mechanisms of the protocol, each to be taken out of a copy; some test has to notice."""
