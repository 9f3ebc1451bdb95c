"""The screen of the criteria: questions in a user's own words, their present numbers, and the form for a new one."""
