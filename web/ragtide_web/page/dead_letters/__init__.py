"""The screens of dead letters: groups, and one letter with its orders."""
