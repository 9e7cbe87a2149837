"""Lets tests of the pages share the databases that other tests make."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
