"""Gates: conditions on measured metrics with the outcomes pass, fail and undecided, for CI. No I/O."""
