"""Change how a worker scales."""

from typing import Any

from stem.control.registry import Call, command


@command(
    "autoscale-config", dict[str, Any], changes=True, aliases=("autoscale",), help="Show or change how workers scale."
)
def autoscale_config(call: Call[dict[str, Any]]) -> dict[str, Any]:
    """The keys are those of the `autoscale:` block, in any spelling; whoever knows the block checks them."""
    return {"autoscale": call.worker.autoscale(call.payload)}
