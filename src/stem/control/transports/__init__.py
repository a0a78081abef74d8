"""The transports that carry commands and replies."""
