"""The ``mainspring`` command: one module for each group of commands.

Services are started by replacing this process with ``python -m mainspring_services.<service>``.
"""
