"""Parts of the alert subscriber: live tail, consumer group, filter, and the event loop of a blocking subscriber."""
