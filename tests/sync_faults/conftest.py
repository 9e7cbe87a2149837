"""What the campaign of syncing needs to find its programs."""

from __future__ import annotations
