"""Dated facts of the outside world (hardware, versions, names, zones, prices), each with its source.

No logic, no imports of ours: every other room may read these and none may write them.
"""
