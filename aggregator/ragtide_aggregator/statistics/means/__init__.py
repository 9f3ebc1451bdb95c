"""The moments of each key, plain, weighted or clustered, and the interval that suits them."""
