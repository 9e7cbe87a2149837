"""Lets the tests here import their own modules as `protocol.…`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
