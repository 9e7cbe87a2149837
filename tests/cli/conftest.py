"""Lets the tests of the commands use the repository of the protocol tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
