"""Name the tenant of a call on every event that a store writes about its task."""

from collections.abc import Sequence
from typing import Any

from stem.contracts.staging import UniformBodies
from stem.core.envelope import Envelope, call_facts

REPORTS = frozenset({"heartbeat", "progress"})  # events whose data is what the task reports, and nothing else
SAYS_TENANT = '"tenant"'


def tenant_of(body: bytes) -> str | None:
    """The tenant that an encoded envelope names in its headers."""
    tenant = call_facts(body).get("tenant")
    return tenant if isinstance(tenant, str) else None


def tenant_data(envelope: Envelope) -> dict[str, Any] | None:
    """The data of the event `enqueued`."""
    tenant = envelope.headers.get("tenant")
    return {"tenant": tenant} if tenant else None


def staged_tenants(bodies: Sequence[str]) -> list[str | None] | None:
    """The tenant of each staged body; None if no body names any. Bodies that are alike share their headers."""
    if isinstance(bodies, UniformBodies):
        if SAYS_TENANT not in bodies.between and SAYS_TENANT not in bodies.behind:
            return None
        tenant = tenant_of(bodies[0].encode())
        return None if tenant is None else [tenant] * len(bodies)
    tenants = [tenant_of(body.encode()) if SAYS_TENANT in body else None for body in bodies]
    return tenants if any(tenants) else None
