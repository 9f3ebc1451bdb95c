"""What a process needs around asyncio: waiting, ending, forking, and calling code of users."""
