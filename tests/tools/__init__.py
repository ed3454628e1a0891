"""Programs that tests put between or around the servers."""
