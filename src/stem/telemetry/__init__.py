"""What Stem tells about itself: metrics, traces and probes. OpenTelemetry and Prometheus are optional and imported late."""
