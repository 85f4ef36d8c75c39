"""Bytes that must survive, and arrays that do not fit into memory."""
