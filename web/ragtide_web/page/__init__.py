"""The page: screens that the server renders, and updates of them while they are open."""
