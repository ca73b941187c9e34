"""What a person sees: pure functions from values, a clock and a width to text."""
