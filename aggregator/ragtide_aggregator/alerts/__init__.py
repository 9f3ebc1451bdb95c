"""Alert rules: the state of each rule on each key, and the alerts that it raises. No clock, no I/O."""
