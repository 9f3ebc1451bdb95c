"""The checks of `ragtide doctor`: whether a deployment works, and how to repair each problem."""
