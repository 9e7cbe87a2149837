"""What was learnt: a person's own memories and those in other products' databases, kept, judged,
found.
"""
