"""Sentinels: a fixed set of items about which the judge is asked again on a schedule, to notice that it changed."""
