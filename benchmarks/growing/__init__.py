"""Measurements of `make capacity`: what an interaction costs as keys, documents, partitions and other sizes grow."""
