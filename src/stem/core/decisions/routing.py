"""Chooses the queue of a call. Pure."""

import hashlib
import re

_PLAIN = re.compile(r"[A-Za-z0-9._\-]{1,64}", re.ASCII)


def queue_of(queue: str, tenant: str | None, *, is_fair: bool) -> str:
    """With fair share a tenant's tasks wait apart, in `queue:tenant`, so that workers can serve tenants in turn."""
    if not is_fair or not tenant:
        return queue
    plain = tenant if _PLAIN.fullmatch(tenant) else hashlib.sha256(tenant.encode()).hexdigest()[:16]
    return f"{queue}:{plain}"


def is_same_or_tenant_queue(queue: str, name: str) -> bool:
    """Whether `name` is the queue itself or one of its tenants'."""
    return name == queue or name.startswith(f"{queue}:")
