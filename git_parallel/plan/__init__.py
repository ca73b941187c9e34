"""Tasks, assignment, configuration: pure functions and data."""
