"""Lets tests of imports share the databases that they make."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
