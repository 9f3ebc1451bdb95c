"""What the page has of the laboratory."""
