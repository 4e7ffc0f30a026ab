"""The environments with hidden parameters that are part of this project."""
