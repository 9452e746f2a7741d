"""What is said of mistakes, one line each, as golden text."""

import json
import pathlib
import shutil
import unittest

import common
import numpy

import daylight


class Messages(unittest.TestCase):
    def test_arguments(self):
        k = daylight.load(common.cpu_package())
        f = lambda *shape: numpy.zeros(shape, "float32")
        line = numpy.zeros(801, "float32")
        fixed = f(8)
        fixed.flags.writeable = False
        odd = numpy.frombuffer(bytearray(33), "uint8")[1:].view("float32")
        said = [
            common.said(k.sums),
            common.said(k.sums, f(8, 64), f(8), f(8)),
            common.said(k.sums, f(8, 64), C=f(8)),
            common.said(k.sums, f(8, 64), A=f(8, 64)),
            common.said(k.sums, [1, 2]),
            common.said(k.sums, f(64)),
            common.said(k.sums, f(8, 63)),
            common.said(k.sums, f(8, 64), f(9)),
            common.said(k.sums, f(0, 64)),
            common.said(k.sums, numpy.zeros((8, 64))),
            common.said(k.sums, f(64, 8).T),
            common.said(k.sums, numpy.zeros((8, 64), ">f4")),
            common.said(k.sums, f(8, 64), fixed),
            common.said(k.sums, f(8, 64), odd),
            common.said(k.sums, line[:512].reshape(8, 64), line[500:508]),
            common.said(k.sums, f(8, 64), stream="default"),
            common.said(k.scaled, f(100)),
            common.said(k.scaled, f(100), "much"),
            common.said(k.scaled, f(101), 2),
            common.said(k.sums, B=f(8)),
            common.said(k.sums.workspace_bytes, "gpu"),
        ]
        common.golden("arguments.txt", "".join(line + "\n" for line in said))
        with self.assertRaises(AttributeError) as e:
            k.mean
        self.assertIn("has no function `mean`; it has sums, total, scaled, product_2", str(e.exception))

    def test_packages(self):
        folder = pathlib.Path(common.SCRATCH.name, "bad")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(common.cpu_package(), folder)
        file = folder / "manifest.json"
        whole = json.loads(file.read_text())

        def changed(**fields):
            file.write_text(json.dumps({**whole, **fields}))
            return folder

        def call(function="total", shape=(2**20,)):
            return getattr(daylight.load(folder), function)(numpy.zeros(shape, "float32"))

        said = [common.said(daylight.load, folder / "none")]
        file.write_text("[]")
        said.append(common.said(daylight.load, folder))
        file.write_text("{")
        said.append(common.said(daylight.load, folder))
        said.append(common.said(daylight.load, changed(schema=2)))
        said.append(common.said(daylight.load, changed(functions=[{"name": "f"}])))
        changed(compile={})
        said.append(common.said(call))
        exact = [f for f in whole["functions"] if f["name"] == "sums" and "when" in f]
        changed(functions=exact)
        said.append(common.said(call, "sums", (9, 64)))
        numpy.testing.assert_array_equal(call("sums", (64, 64)), numpy.zeros(64))
        others = json.dumps(whole["functions"]).replace(*self.level(whole))
        changed(functions=json.loads(others))
        said.append(common.said(call))
        changed()
        for path in folder.glob("total.*.c"):
            path.unlink()
        said.append(common.said(call))
        text = "".join(line + "\n" for line in said).replace(str(folder), "FOLDER").replace(self.level(whole)[0].strip('"'), "LEVEL")
        common.golden("packages.txt", text)

    @staticmethod
    def level(manifest):
        """The level of the CPU in the manifest, and one that there is nowhere."""
        return f'"{next(iter(manifest["compile"]))}"', '"riscv64"'


if __name__ == "__main__":
    unittest.main()
