"""What the tests share: captures, and tests that are skipped where a package is missing."""

import importlib.util
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

VIEWS = os.path.join(ROOT, "testdata", "inference_views.stallmap")
CONTIGUOUS = os.path.join(ROOT, "testdata", "inference_views_contiguous.stallmap")
PARTS = os.path.join(ROOT, "testdata", "training_parts.stallmap")
REPLAYS = os.path.join(ROOT, "testdata", "blame_replays.stallmap")


def needs(*packages):
    """Skips a test where one of the packages is not installed. `scripts/test` counts it."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return unittest.skipIf(missing, f"no {', '.join(missing)}")
