"""Attacks on the package with random input: what must never happen does not happen, whatever users give."""
