"""The routes of the HTTP service, each file for one kind of data."""
