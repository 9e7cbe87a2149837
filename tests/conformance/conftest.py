"""Lets the tests here import `protocol.…` and `conformance.…`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
