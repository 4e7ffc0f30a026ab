"""How well are one step and many predicted?"""
