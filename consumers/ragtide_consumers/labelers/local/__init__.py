"""The built-in labeler: words compared, no model, no key, no download."""
