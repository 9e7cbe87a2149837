"""How the static model is made: from a list of archives to the table of word vectors in the wheel.

No part of the wheel itself.
"""
