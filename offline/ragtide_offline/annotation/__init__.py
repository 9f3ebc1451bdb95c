"""People annotate kept items: the queue of items, the questions, and the stored answers."""
