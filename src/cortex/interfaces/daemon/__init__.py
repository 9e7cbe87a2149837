"""cortexd, the one process that serves every agent of a person, and the thin front end that every
agent window starts.
"""
