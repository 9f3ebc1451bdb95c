"""The server of `ragtide mcp`: tools with which a language model reads a deployment. It needs the extra `mcp`."""
