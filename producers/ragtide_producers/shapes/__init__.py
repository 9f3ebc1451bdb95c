"""Questions, documents and answers in the shapes in which other tools and libraries write them; pure, and linear-time."""
