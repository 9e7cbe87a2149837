"""What other products have stored, read so that it can move here.

One module for each; none of them ever writes.
"""
