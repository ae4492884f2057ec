"""A made-up root file system of the slurmd image: small real libraries and programs where the image has big ones.

What a linker or loader decides (order, missing libraries, symbols, names) is decided by the real ones. Every path in it
has the root as prefix, also in ld.so.conf.d and LD_LIBRARY_PATH; commands are its own by PATH, so that nothing of this
machine shows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

IMAGE = Path(__file__).parents[2] / "images" / "slurmd"
SHARE = "usr/local/share/slurmd-image"
SITE = "usr/local/lib/python3.12/site-packages"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
EFA, PLUGIN = "opt/amazon/efa/lib", "opt/amazon/ofi-nccl/lib"
CUDA = "usr/local/cuda-13.0/targets/x86_64-linux/lib"
NCCL_TESTS = (
    *("all_gather", "all_reduce", "alltoall", "alltoallv", "broadcast", "gather"),
    *("hypercube", "reduce", "reduce_scatter", "scatter", "sendrecv"),
)
TOOLS = (
    *("awk", "bash", "cat", "cmp", "comm", "dirname", "echo", "env", "find", "grep", "head", "ln", "mktemp", "od"),
    *("paste", "readlink", "rm", "sed", "sh", "sort", "tail", "tee", "tr", "uname", "wc", "xargs"),
)
SEARCH_PATH = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "tools")

# name: (C source, what it is linked to, linker's options)
_C: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "libmade-up-efa.so.1": ("int efadv(void) { return 1; }", (), ()),  # no host has it, unlike libefa.so.1
    "libfabric.so.1": ("int efadv(void); int fi_version(void) { return efadv(); }", ("libmade-up-efa.so.1",), ()),
    "libnccl-net-ofi.so": (
        "int ncclNetPlugin_v10, fi_version(void); int use(void) { return fi_version(); }",
        ("libfabric.so.1",),
        (),
    ),
    "plugin-without-symbol": ("int fi_version(void); int use(void) { return fi_version(); }", ("libfabric.so.1",), ()),
    "libcudart.so.13": ("int cudaRuntimeGetVersion(int *v) { return *v = 13000, 0; }", (), ()),
    "libcuda.so.1": ("int cuInit(void) { return 0; }", (), ()),
    "libnccl.so.2": ("int ncclGetVersion(int *v) { return *v = 22707, 0; }", (), ()),
    "libpmix.so.2": ('const char *PMIx_Get_version(void) { return "OpenPMIx 5.0.9, repo rev: v5.0.9"; }', (), ()),
    "libpmix-4": (
        'const char *PMIx_Get_version(void) { return "OpenPMIx 4.2.2, repo rev: v4.2.2"; }',
        (),
        ("-Wl,-soname,libpmix.so.2",),
    ),
    "libopen-pal.so.80": (
        "int PMIx_Get_version(void); int pal(void) { return PMIx_Get_version(); }",
        ("libpmix.so.2",),
        (),
    ),
    "libmpi.so.40": ("int pal(void); int MPI_Init(void) { return pal(); }", ("libopen-pal.so.80",), ()),
    "libmpi-without-pmix": ("int MPI_Init(void) { return 0; }", (), ("-Wl,-soname,libmpi.so.40",)),
    "mpi_pmix_v5.so": ('const char *opens = "libpmix.so.2";', (), ()),
    "mpi_pmix-unversioned": ('const char *opens = "libpmix.so", *in = "/usr/lib/x86_64-linux-gnu/pmix2/lib";', (), ()),
    "slurmd": ('int puts(const char *); int main(void) { puts("slurm 26.05.2"); return 0; }', (), ()),
    "perf": (
        "int MPI_Init(void), ncclGetVersion(int *), cuInit(void); int main(void) { return MPI_Init() + cuInit(); }",
        ("libmpi.so.40", "libnccl.so.2", "libcuda.so.1"),
        (),
    ),
    "perf-without-mpi": (
        "int ncclGetVersion(int *); int main(void) { int v; return ncclGetVersion(&v); }",
        ("libnccl.so.2",),
        (),
    ),
    # python3.12 of the root: this Python, with the root's packages and the root's loader.
    "python3.12": (
        r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char root[4096] = {0}, loader[8192], packages[8192];
  if (readlink("/proc/self/exe", root, sizeof root - 1) < 0) return 99;
  root[strlen(root) - strlen("/usr/local/bin/python3.12")] = 0;
  snprintf(loader, sizeof loader, "%s/loader", root);
  snprintf(packages, sizeof packages, "%s/usr/local/lib/python3.12/site-packages", root);
  setenv("PYTHONPATH", packages, 1);
  setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  char **arguments = calloc(argc + 4, sizeof *arguments);
  arguments[0] = "sh"; arguments[1] = loader; arguments[2] = PYTHON;
  memcpy(arguments + 3, argv + 1, argc * sizeof *arguments);
  return execv("/bin/sh", arguments);
}""",
        (),
        (f'-DPYTHON="{sys.executable}"',),
    ),
}

_SCRIPTS: Mapping[str, str] = {
    # The loader of this root: the environment's folders, then those of ld.so.conf.d in the order of their files.
    "loader": """root=${0%/loader}
folders=$(cat "$root"/etc/ld.so.conf.d/*.conf | paste -sd:)
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders exec "$@"
""",
    "usr/bin/ldd": """exec sh "${0%/usr/bin/ldd}/loader" LDD "$@"
""",
    # Always of the present folders; this machine's own libraries, which ldconfig adds, are not shown.
    "usr/sbin/ldconfig": """root=${0%/usr/sbin/ldconfig}
LDCONFIG -X -C "$root/etc/ld.so.cache" -f "$root/etc/ld.so.conf" 2>/dev/null
[ "$1" != -p ] || LDCONFIG -C "$root/etc/ld.so.cache" -p | grep -F "$root/"
""",
    "usr/bin/python3": """root=${0%/usr/bin/python3}
PYTHONPATH=$root/usr/lib/python3/dist-packages exec PYTHON "$@"
""",
    "opt/amazon/efa/bin/fi_info": """case $1 in
--version) printf 'fi_info: 2.1.0amzn5.0\\nlibfabric: 2.1.0amzn5.0\\nlibfabric api: 2.1\\n' ;;
-l) printf 'efa:\\n    version: 201.0\\ntcp:\\n    version: 201.0\\n' ;;
*) exit 61 ;;
esac
""",
    # As nvcc 13.0 does where the C library declares rsqrt noexcept.
    "usr/local/cuda-13.0/bin/nvcc": """root=${0%/usr/local/cuda*}
if [ "$1" = --version ]; then echo 'Cuda compilation tools, release 13.0, V13.0.48'; exit; fi
grep -q '(rsqrt,' "$root/usr/include/x86_64-linux-gnu/bits/mathcalls.h" || exit 0
grep -qE 'rsqrtf?\\((double|float) [ax]\\)\\)?;' "$root/usr/local/cuda/include/crt/math_functions.h" || exit 0
echo 'mathcalls.h(206): error: exception specification is incompatible with that of previous function "rsqrt"'
exit 2
""",
    "usr/local/bin/entrypoint.sh": "exec supervisord -c /etc/supervisor/supervisord.conf\n",
    "usr/bin/mpirun": "echo 'mpirun (Open MPI) 5.0.10'\n",
    "usr/bin/scontrol": "",
    "usr/sbin/sshd": "",
    "usr/bin/apptainer": "echo apptainer version 1.4.5\n",
    **{f"usr/bin/{name}": "" for name in ("mksquashfs", "squashfuse", "fuse-overlayfs", "newuidmap")},
}

MATH_FUNCTIONS = """extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ double                 rsqrt(double x);
extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ float                  rsqrtf(float x);
extern __DEVICE_FUNCTIONS_DECL__ __device_builtin__ double sinpi(double x) __NV_IEC_60559_FUNCS_EXCEPTION_SPECIFIER;
__func__(double rsqrt(double a));
__func__(float rsqrtf(float a));
__MATH_FUNCTIONS_DECL__ float rsqrt(const float a);
"""

_TORCH = """import ctypes
from pathlib import Path
__version__ = "2.9.0+cu130"
class version: cuda = "13.0"
NCCL = Path(__file__).parents[1] / "nvidia/nccl/lib/libnccl.so.2"
ctypes.CDLL(str(NCCL))
"""

_FILES: Mapping[str, str] = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nslurm:x:401:401::/home/slurm:/usr/sbin/nologin\n",
    "etc/security/limits.conf": "#* soft memlock 64\n* soft core 0\n",
    "etc/ld.so.conf.d/x86_64-linux-gnu.conf": f"ROOT/{LIBRARIES}\n",
    "etc/ld.so.conf": "include ROOT/etc/ld.so.conf.d/*.conf\n",
    "usr/include/x86_64-linux-gnu/bits/mathcalls.h": "__MATHCALL (rsqrt,, (_Mdouble_ __x));\n",
    "usr/local/cuda-13.0/include/crt/math_functions.h": MATH_FUNCTIONS,
    "usr/lib/python3/dist-packages/supervisor.py": "",
    f"{SITE}/torch/__init__.py": _TORCH,
    f"{SITE}/torch/distributed.py": "def is_nccl_available(): return True\ndef is_gloo_available(): return True\n",
    f"{SITE}/pip/__init__.py": "",
    f"{SITE}/pip/__main__.py": "print('fastai 2.8.7 has requirement torch<2.9, but you have torch 2.9.0.')\nexit(1)\n",
    f"{SHARE}/dlc-pip-check.txt": "fastai 2.8.7 has requirement torch<2.9, but you have torch 2.8.0.\n",
    **{f"{SITE}/{name}.py": "" for name in ("peft", "trl", "transformers", "datasets", "accelerate")},
}

_LINKS: Mapping[str, str] = {
    "usr/local/cuda": "cuda-13.0",
    "usr/local/cuda-13.0/lib64": "targets/x86_64-linux/lib",
    "usr/local/bin/python3": "python3.12",
    f"{LIBRARIES}/libpmix.so.2": "pmix2/lib/libpmix.so.2",
}

_LIBRARIES: Mapping[str, str] = {
    f"{EFA}/libfabric.so.1": "libfabric.so.1",
    f"{LIBRARIES}/libfabric.so.1": "libfabric.so.1",  # the distribution's, which its Open MPI brings
    f"{LIBRARIES}/libmade-up-efa.so.1": "libmade-up-efa.so.1",
    f"{PLUGIN}/libnccl-net-ofi.so": "libnccl-net-ofi.so",
    f"{CUDA}/libnccl.so.2": "libnccl.so.2",
    f"{CUDA}/libcudart.so.13": "libcudart.so.13",
    f"{SITE}/nvidia/nccl/lib/libnccl.so.2": "libnccl.so.2",
    f"{LIBRARIES}/pmix2/lib/libpmix.so.2": "libpmix.so.2",
    f"{LIBRARIES}/libopen-pal.so.80": "libopen-pal.so.80",
    f"{LIBRARIES}/libmpi.so.40": "libmpi.so.40",
    f"{LIBRARIES}/slurm/mpi_pmix_v5.so": "mpi_pmix_v5.so",
    "usr/local/cuda-13.0/compat/libcuda.so.1": "libcuda.so.1",
    "usr/sbin/slurmd": "slurmd",
    "usr/local/bin/python3.12": "python3.12",
    **{f"tmp/nccl-tests/build/{name}_perf": "perf" for name in NCCL_TESTS},
}


class Compiled:
    """Libraries and programs out of a line of C each, compiled when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Path:
        made = self.folder / name
        if not made.exists():
            source, needed, options = _C[name]
            shared = () if "main(" in source else ("-shared", "-fPIC", f"-Wl,-soname,{name}")
            code = self.folder / f"{name}.c"
            code.write_text(source)
            subprocess.run(
                ["gcc", "-w", "-o", made, *shared, *options, code, "-Wl,--no-as-needed,--allow-shlib-undefined"]
                + [str(self[library]) for library in needed],
                check=True,
            )
        return made


@dataclass
class Tree:
    """A root and the environment beside PATH. Changes can be put back, so that one root serves all tests."""

    path: Path
    compiled: Compiled
    environment: dict[str, str] = field(default_factory=lambda: {"SLURM_SERIES": "26.05"})
    _changed: list[tuple[Path, Path | None]] = field(default_factory=list)

    @contextmanager
    def restored(self) -> Iterator[Tree]:
        self._changed.clear()
        environment = dict(self.environment)
        try:
            yield self
        finally:
            self.environment = environment
            for file, original in reversed(self._changed):
                file.unlink(missing_ok=True)
                if original is not None:
                    original.rename(file)

    def _making(self, where: str) -> Path:
        """The place of a file that is about to be made; what lies there is put aside."""
        file = self.path / where
        file.parent.mkdir(parents=True, exist_ok=True)
        original = None
        if os.path.lexists(file):
            original = self.path / "aside" / str(len(self._changed))
            original.parent.mkdir(exist_ok=True)
            file.rename(original)
        self._changed.append((file, original))
        return file

    def write(self, where: str, text: str) -> None:
        self._making(where).write_text(text.replace("ROOT", str(self.path)))

    def script(self, where: str, text: str) -> None:
        self.write(where, f"#!/bin/sh\n{text}")
        (self.path / where).chmod(0o755)

    def library(self, where: str, name: str) -> None:
        shutil.copy(self.compiled[name], self._making(where))

    def link(self, where: str, target: str) -> None:
        self._making(where).symlink_to(target.replace("ROOT", str(self.path)))

    def program(self, where: str, code: bytes) -> None:
        file = self._making(where)
        file.write_bytes(code)
        file.chmod(0o755)

    def replace(self, where: str, old: str, new: str) -> None:
        file = self.path / where
        text, mode = file.read_text(), file.stat().st_mode
        assert old in text, f"{where} has no {old!r}"
        self.write(where, text.replace(old, new))
        file.chmod(mode)

    def remove(self, *where: str) -> None:
        for name in where:
            self._making(name)

    def move(self, old: str, new: str) -> None:
        text = (self.path / old).read_text()
        self.remove(old)
        self.write(new, text)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        path = ":".join(f"{self.path}/{folder}" for folder in SEARCH_PATH)
        environment = {"PATH": path, "ASSERT_ROOT": str(self.path), **self.environment}
        return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=self.path)

    def assertion(self, *numbers: str) -> subprocess.CompletedProcess[str]:
        return self.run("/bin/bash", str(IMAGE / "assert.sh"), *numbers)

    def build_step(self, script: str) -> subprocess.CompletedProcess[str]:
        """A script of the image, as the Dockerfile runs it."""
        interpreter = "/bin/bash" if script.endswith(".sh") else f"{self.path}/usr/local/bin/python3"
        return self.run(interpreter, str(IMAGE / script))


def bases(path: Path, compiled: Compiled) -> Tree:
    """What the COPY and apt-get lines leave, before the image's own scripts have run."""
    tree = Tree(path, compiled)
    tools = {
        "PYTHON": sys.executable,
        "LDD": shutil.which("ldd") or "ldd",
        "LDCONFIG": shutil.which("ldconfig", path="/sbin:/usr/sbin") or "ldconfig",
    }
    for where, text in _SCRIPTS.items():
        for word, program in tools.items():
            text = re.sub(rf"\b{word}\b", program, text)
        tree.script(where, text)
    for where, text in _FILES.items():
        tree.write(where, text)
    requirements = (IMAGE / "requirements.txt").read_text()
    tree.write(f"{SHARE}/requirements.txt", requirements)
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", requirements, re.MULTILINE)
    for name, version in [*pins, ("torch", "2.9.0+cu130")]:
        tree.write(
            f"{SITE}/{name.replace('-', '_')}-{version}.dist-info/METADATA", f"Name: {name}\nVersion: {version}\n"
        )
    tree.write("usr/bin/supervisord", "#!ROOT/usr/bin/python3\n")
    (path / "usr/bin/supervisord").chmod(0o755)
    for where, name in _LIBRARIES.items():
        tree.library(where, name)
    for where, target in _LINKS.items():
        tree.link(where, target)
    (path / "tools").mkdir()
    for name in TOOLS:
        (path / "tools" / name).symlink_to(shutil.which(name, path="/usr/bin:/bin") or "/missing")
    return tree


def image(path: Path, compiled: Compiled) -> Tree:
    """The image that the Dockerfile makes: every assertion holds."""
    tree = bases(path, compiled)
    for script in ("locate.sh", "cuda-glibc.sh", "describe.py"):
        done = tree.build_step(script)
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
    return tree
