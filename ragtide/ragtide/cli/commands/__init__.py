"""The commands: each parses its options, calls the package, and prints the result.

A module here imports at its head only what the options need. Everything else is imported at the head of the command
that uses it, so that a help, a completion or a mistake imports none of it.
"""
