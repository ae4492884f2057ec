"""Says what an adapter file holds: size, tensors, and how long after the job's start it was written.

Reads the safetensors header itself (8 bytes of length, then JSON), so that it needs no package.
"""

import json
import pathlib
import struct
import sys


def main() -> int:
    path, started = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    if not path.is_file():
        print(f"adapter {path} is missing")
        return 1
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    tensors = [name for name in header if name != "__metadata__"]
    lora = [name for name in tensors if "lora_" in name]
    facts = path.stat()
    print(
        f"adapter {path}: {facts.st_size} bytes, {len(tensors)} tensors, {len(lora)} of them LoRA, "
        f"{int(facts.st_mtime) - started} s after the job's start"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
