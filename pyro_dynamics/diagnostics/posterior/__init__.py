"""Is the guide near its posterior?"""
