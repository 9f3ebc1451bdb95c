"""The local labeler compares words: no model, no key, no download."""
