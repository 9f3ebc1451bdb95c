"""The service of `ragtide serve` under load: requests of traces and of interactions, and senders of them."""
