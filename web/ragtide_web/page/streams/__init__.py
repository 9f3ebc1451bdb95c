"""The screen of the streams: the AsyncAPI document for people and for programs."""
