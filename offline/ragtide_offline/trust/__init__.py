"""What the numbers of each labeler are worth, on rows with labels of people or of a strong judge."""
