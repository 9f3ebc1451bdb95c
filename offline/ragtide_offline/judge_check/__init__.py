"""Checks a judge on a user's own items: asked again, and with changes that leave the quality as it is."""
