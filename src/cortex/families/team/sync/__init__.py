"""Sync between a home and its team's Core: push, pull, and identities on either side."""
