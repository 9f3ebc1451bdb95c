"""The local labeler: it compares words, and needs no model, no key and no download."""
