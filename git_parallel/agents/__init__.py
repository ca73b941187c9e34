"""Programs that do the work: presets as data, and one reader per output format."""
