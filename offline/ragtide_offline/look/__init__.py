"""The look that reports and the page share."""
