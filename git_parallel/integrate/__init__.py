"""Conflicts, review and landing."""
