"""The LLM judge: prompts, a client for production, and labels out of what the model answered."""
