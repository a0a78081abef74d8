"""What workers can be asked, a file a subject."""

from stem.control.commands import autoscale, inspect, isolates, ping, queues, ratelimit, revoke, shutdown

__all__ = ["autoscale", "inspect", "isolates", "ping", "queues", "ratelimit", "revoke", "shutdown"]
