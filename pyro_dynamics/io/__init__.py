"""Files: run folders, checkpoints, writes that are whole or not at all, locks, schemas."""
