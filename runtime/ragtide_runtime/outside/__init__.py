"""The way to other servers: which proxy, which certificates, and how much of an answer is read."""
