"""Alert rules: the state of each rule on each key, and the alerts that rules raise. No clock, no I/O."""
