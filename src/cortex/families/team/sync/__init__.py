"""A home and its team's Core: what is sent, what comes back, and who is called how on either side."""
