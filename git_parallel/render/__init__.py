"""Turns data into text for a terminal. Pure: takes values, a clock and a width."""
