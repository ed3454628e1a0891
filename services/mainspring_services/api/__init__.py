"""What should run: the HTTP API. It validates, writes rows and reads them; it never talks to the broker."""
