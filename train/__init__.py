"""Training of the static model, from a list of archives to the word vectors in the wheel.

No part of the wheel itself.
"""
