"""Asks Apache TVM whether the scheduled functions that Daylight wrote are functions to it.

    tvm_scheduled_check.py FOLDER [--build REGEX]

Every .py file of FOLDER (`apply-best --emit tvm`) must parse, carry `tirx.is_scheduled`, and be structurally
equal to what TVM reads back of its own print. Those for sm_90a whose names match REGEX are built by TVM
for sm_90, and NVRTC compiles the CUDA text that comes out; no GPU is needed. Needs
apache-tvm==0.27.0.post1 and, to build, nvidia-cuda-nvrtc, nvidia-cuda-runtime and nvidia-cuda-cccl. Exit code 1 when anything
fails, or when nothing was checked.
"""

import argparse
import ctypes
import pathlib
import re
import sys

import tvm
from tvm.ir import assert_structural_equal
from tvm.target import Target

GPU = {"kind": "cuda", "arch": "sm_90"}


@tvm.register_global_func("tvm_callback_cuda_compile", override=True)
def keep_text(code, target):
    """TVM would start nvcc here."""
    return code


class Nvrtc:
    """Compiles CUDA text with the library of the Python packages."""

    def __init__(self):
        import nvidia

        root = pathlib.Path(list(nvidia.__path__)[0])
        headers = [next(root.rglob("cuda_fp16.h")).parent, next(root.rglob("cuda/std/cstdint")).parents[2]]
        self.options = [b"--gpu-architecture=sm_90", b"-default-device", *(b"-I" + str(h).encode() for h in headers)]
        # The library finds its builtins only where they are loaded already.
        ctypes.CDLL(str(next(root.rglob("libnvrtc-builtins.so.*"))))
        self.lib = ctypes.CDLL(str(next(root.rglob("libnvrtc.so.*"))))

    def compile(self, text):
        """Raises what the compiler says of text that it does not take."""
        program = ctypes.c_void_p()
        self.lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
        options = (ctypes.c_char_p * len(self.options))(*self.options)
        status = self.lib.nvrtcCompileProgram(program, len(self.options), options)
        if status != 0:
            size = ctypes.c_size_t()
            self.lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            self.lib.nvrtcGetProgramLog(program, log)
            raise RuntimeError(log.value.decode(errors="replace").strip().splitlines()[0])
        self.lib.nvrtcDestroyProgram(ctypes.byref(program))


def parse(path):
    """The function, if TVM reads and prints it."""
    function = tvm.script.from_source(path.read_text())
    if not function.attrs or not function.attrs.get("tirx.is_scheduled"):
        raise ValueError("it does not say that it is scheduled")
    assert_structural_equal(function, tvm.script.from_source(function.script()))
    return function


def cuda_text(function):
    with Target(GPU):
        built = tvm.compile(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target=Target(GPU))
    return built.mod.imports[0].inspect_source()


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else repr(error)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--build", default=None)
    a = options.parse_args()
    nvrtc = Nvrtc() if a.build else None
    parsed, built, failed = 0, 0, []
    for path in sorted(a.folder.glob("*.py")):
        try:
            function = parse(path)
            parsed += 1
            if a.build and path.name.endswith(".sm_90a.py") and re.search(a.build, path.name):
                nvrtc.compile(cuda_text(function))
                built += 1
        except Exception as error:  # TVM raises many kinds
            failed.append(f"{path.name}: {type(error).__name__}: {first_line(error)}")
    print(*failed, sep="\n", end="\n" if failed else "")
    print(f"{parsed} scheduled functions read by TVM, {built} built by it for sm_90; {len(failed)} failed")
    sys.exit(1 if failed or parsed == 0 or (a.build and built == 0) else 0)


if __name__ == "__main__":
    main()
