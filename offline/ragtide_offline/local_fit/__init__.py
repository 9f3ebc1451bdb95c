"""Fits the local labeler to interactions that a judge or people have scored: `ragtide fit`."""
