"""What both sides of control over HTTP agree on."""

COMMAND_PATH = "/control"
REPLY_PATH = "/control/replies/"
ALIVE_SECONDS = 1.0  # how often a stream without a reply sends a comment, so that the reader knows it is open
# Read-only, and answered without a token.
PROBE_PATHS = ("/livez", "/readyz", "/metrics", "/scale")
