"""Values and pure decisions. Standard library and msgspec only; no clock, no store, no logging."""
