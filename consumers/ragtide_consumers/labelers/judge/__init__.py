"""The LLM judge: prompts, a client for production, and labels out of the model's answers."""
