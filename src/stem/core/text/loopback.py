"""Tells whether a host name means this machine, without a lookup."""


def is_loopback(host: str) -> bool:
    from ipaddress import ip_address  # seldom needed, and slow to import

    bare = host.strip("[]").rstrip(".").lower()
    if bare == "localhost":
        return True
    try:
        return ip_address(bare).is_loopback
    except ValueError:
        return False
