"""Languages, sentences and their keys: what every labeler looks at before it judges."""
