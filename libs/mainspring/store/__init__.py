"""The only package that speaks Postgres.

SQL lies in ``queries/*.sql``, one file for each aggregate, and each query has a function of the same name in
the module beside it. Functions take a connection first; the caller opens the transaction. ``migrations`` are
forward-only. Drivers' errors are translated in ``pool``, and only there it is decided what may be retried.
"""
