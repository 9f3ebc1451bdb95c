"""Tools of this repository: they measure and prove, and are not in the wheel."""
