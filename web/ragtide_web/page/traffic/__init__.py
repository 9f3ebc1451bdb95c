"""The traffic: kept answers with their scores."""
