"""Languages, sentences and their keys: the text as every labeler sees it."""
