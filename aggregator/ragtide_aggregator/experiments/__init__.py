"""Experiments as they are judged: what was scored, the race, and the leaderboard."""
