"""The LLM judge: its prompts, its client, and the labels in its answers."""
