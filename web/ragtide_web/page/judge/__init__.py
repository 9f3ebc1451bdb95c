"""The screen of the judge: endpoints, spend, and how far its labels can be trusted."""
