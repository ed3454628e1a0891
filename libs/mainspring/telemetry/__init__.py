"""What the outside sees of a process: log lines and metrics. Nothing here decides anything."""
