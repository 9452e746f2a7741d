"""What is asked of the driver of a GPU, as golden text: the driver is one that says so and does nothing."""

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
import unittest.mock

import common

import daylight
from daylight import manifest
from daylight.cuda import nvrtc

TARGETS = ["cuda:sm_80", "cuda:sm_90a"]


@functools.cache
def driver():
    """The folder of the driver."""
    folder = pathlib.Path(common.SCRATCH.name, "fake")
    folder.mkdir()
    out = folder / "libcuda.so.1"
    subprocess.run(["cc", "-std=gnu11", "-shared", "-fPIC", "-o", out, common.HERE / "libcuda.c"], check=True)
    return folder


@functools.cache
def package():
    """Functions for two architectures, `sums` with kernels for two sizes; cubins are texts that say which they are."""
    log, out = (pathlib.Path(common.SCRATCH.name, name) for name in ("gpu-log", "gpu"))
    sums = common.DATA / "sums.py"
    daylight.tune(sums, target="cuda:sm_90a", no_measure=True, bind={"n": [8, 64]}, trials=2, log=log)
    files = [common.DATA / f"{name}.py" for name in ("scaled", "total", "sums", "product")]
    daylight.apply_best(files, out, log=log, target=TARGETS, bind={"n": [8, 64]}, overlap=True)
    for cubin in out.glob("*.cubin"):
        cubin.write_bytes(cubin.name.encode() + b"\0")
    return out


@functools.cache
def with_zeros():
    """The same, but workspaces are to hold zeros before each launch."""
    out = pathlib.Path(common.SCRATCH.name, "gpu-zeros")
    shutil.copytree(package(), out)
    manifest = out / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"init": "none"', '"init": "zero_each"'))
    return out


def said(**environment):
    """What the script prints beside the driver."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LD_LIBRARY_PATH": str(driver()), **environment}
    # The driver writes for itself: Python has to write at once, so that lines stay in order.
    command = [sys.executable, "-u", common.HERE / "on_gpu.py", package(), with_zeros()]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


class Gpu(unittest.TestCase):
    def test_a_hopper(self):
        common.golden("sm_90.txt", said(FAKE_DEVICE="90"))

    def test_an_ampere_of_a_later_minor(self):
        common.golden("sm_86.txt", said(FAKE_DEVICE="86"))

    def test_others(self):
        text = said(FAKE_DEVICE="120")
        wanted = "DeviceError scaled: the device has compute capability 12.0, the kernels were built for sm_80, sm_90a"
        self.assertIn(wanted, text)

    def test_failures_of_the_driver_are_named(self):
        functions = ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuModuleLoadData", "cuModuleGetFunction"]
        functions += ["cuLaunchKernel", "cuTensorMapEncodeTiled"]
        for function in functions:
            text = said(FAKE_DEVICE="90", FAKE_FAILS=function)
            last = text.strip().splitlines()[-1]
            self.assertIn("failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)", last, function)
            self.assertTrue(last.startswith("DeviceError"), last)

    def test_without_a_driver(self):
        # An empty file is no library, and stands before what the machine has.
        folder = pathlib.Path(common.SCRATCH.name, "none")
        folder.mkdir(exist_ok=True)
        (folder / "libcuda.so.1").write_text("")
        text = said(LD_LIBRARY_PATH=str(folder))
        self.assertIn("DeviceError scaled: there is no CUDA driver on this machine", text)

    def test_text_is_compiled_once(self):
        out = pathlib.Path(common.SCRATCH.name, "text")
        with unittest.mock.patch.dict(os.environ, DAYLIGHT_NVRTC="/none"):
            daylight.apply_best(common.DATA / "scaled.py", out, log=common.sums_log(), target=TARGETS)
        self.assertEqual(list(out.glob("*.cubin")), [])
        options = manifest.read(out).compile["sm_90a"]
        text = out / "scaled.sm_90a.cu"
        cubin = nvrtc.cubin(text, options)
        self.assertEqual(cubin[:4], b"\x7fELF")
        with unittest.mock.patch.object(nvrtc, "_compile", None):
            self.assertEqual(nvrtc.cubin(text, options), cubin)
        text.write_text("extern int;;\nnothing\n")
        self.assertIn("NVRTC cannot compile scaled.sm_90a.cu: NVRTC_ERROR_COMPILATION", common.said(nvrtc.cubin, text, options))


if __name__ == "__main__":
    unittest.main()
