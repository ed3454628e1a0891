"""What travels over HTTP, as models: requests in, answers out."""
