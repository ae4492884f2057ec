#!/bin/bash
# Prevents: a fine-tune that stops at an import on the GPU nodes, and pins that break what the container brings.
share=$ASSERT_ROOT/usr/local/share/slurmd-image
python3 - "$share/requirements.txt" <<'PYTHON' || fail "python packages: not as pinned; see the message above"
import importlib, re, sys
from importlib import metadata
from pathlib import Path

# The first five are compiled against the container's older distribution: libssl, libffi and so on must be of that ABI here.
for name in ("ssl", "ctypes", "sqlite3", "lzma", "bz2", "peft", "trl", "transformers", "datasets", "accelerate"):
    importlib.import_module(name)
for name, pinned in re.findall(r"^([\w.-]+)==([^\s;]+)", Path(sys.argv[1]).read_text(), re.MULTILINE):
    if metadata.version(name) != pinned:
        raise SystemExit(f"{name}: {metadata.version(name)} is installed, requirements.txt pins {pinned}")
PYTHON
# By package and requirement: the version that a pin brought in its place is not a new problem.
complaints() { sed 's/, but you have .*//' | sort -u; }
broken=$(comm -13 <(complaints <"$share/dlc-pip-check.txt") <(python3 -m pip check | complaints) | grep -v '^No broken requirements' || true)
if [ -n "$broken" ]; then fail "pip check: $broken; our pins broke it, the container alone had no such problem; run lock.sh with it in dlc.in"; fi
echo "peft, trl, transformers, datasets and accelerate as pinned"
