"""Logged transitions: read, checked, fitted and written for other tools."""
