"""Questions, documents and answers in the shapes in which other tools write them; pure, and linear-time."""
