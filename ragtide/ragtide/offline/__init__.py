"""Work on files without Redis: scoring them, and comparing scores."""
