"""Pulumi components, one family per file: a part of the plan and values of neighbours become resources and outputs.

Owns edges, options and the values that only a deployment knows. Does not own decisions (`plan/`) nor exports
(`__main__.py`). No component imports another; what several need is in `_*.py`.
"""

from __future__ import annotations

import atexit
import gc

# The SDKs, which come with the components, are a hundred thousand objects that live as long as the program. Looking
# through them again and again while they are imported took a third of a preview's CPU time (2.9 s, now 1.7 s; no more
# memory).
gc.set_threshold(200_000, 50, 100)
# At its end the interpreter would look through all of it once more and take it apart: another 0.8 s.
atexit.register(gc.freeze)
