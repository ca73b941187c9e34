"""What git keeps of a run: records in refs, notes, snapshots."""
