"""The frame of each screen: base template, style, charts, and the address of all files that a browser loads."""
