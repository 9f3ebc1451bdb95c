"""What reads Redis for the page and the HTTP API."""
