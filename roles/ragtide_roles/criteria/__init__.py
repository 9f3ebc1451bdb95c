"""The criteria of a deployment: their hints, their numbers, and files of them."""
