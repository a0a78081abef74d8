"""Encode the input of the scripts and decode their replies.

Moments and durations are whole microseconds. What users wrote (meta, payloads, errors, event data) stays JSON text: Lua must not
read it, because its numbers are doubles and its empty tables are ambiguous. It travels as text, never as bytes, which the
server's msgpack does not know.
"""
