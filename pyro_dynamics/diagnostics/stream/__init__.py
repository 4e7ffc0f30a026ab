"""Can the belief along a stream of steps be trusted?"""
