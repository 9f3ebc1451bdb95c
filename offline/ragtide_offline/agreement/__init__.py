"""The agreement of scores with gold scores or with another labeler, from files."""
