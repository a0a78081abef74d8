"""Apps, canvases and schedules in tests."""
