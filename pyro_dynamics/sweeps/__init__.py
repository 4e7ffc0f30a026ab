"""Many runs at once, on Ray."""
