"""Runs and watches the workers: scheduler, journal, guard."""
