"""Draws the table of one_clock.py as bars: plot.py TABLE.csv PICTURE.svg [REGEX of workloads] (needs nothing but Python)."""

import csv
import re
import sys

COLOURS = {"daylight": "#e8862e", "torch": "#8a8f98", "torch.compile": "#5b8dbf", "tvm-dlight*": "#9fb87c"}
COLUMNS = {"daylight": "daylight_us", "torch": "torch_us", "torch.compile": "torch_compile_us", "tvm-dlight*": "tvm_dlight_us_scaled"}
LEFT, BAR, GAP, WIDTH = 210, 7, 12, 430


def text(x, y, value, size=11, anchor="start", weight="normal"):
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}">{value}</text>'


def main():
    only = re.compile(sys.argv[3] if len(sys.argv) > 3 else "")
    rows = [row for row in csv.DictReader(open(sys.argv[1])) if only.match(row["workload"])]
    out, y = [text(10, 22, "Speed relative to the best peer on one NVIDIA H200 (higher is better)", 14, weight="bold")], 40
    for i, (name, colour) in enumerate(COLOURS.items()):
        out += [f'<rect x="{LEFT + 110 * i}" y="{y - 9}" width="10" height="10" fill="{colour}"/>', text(LEFT + 14 + 110 * i, y, name)]
    y += 16
    times = lambda row: [(name, float(row[column] or "nan")) for name, column in COLUMNS.items()]
    best = lambda row: min(time for name, time in times(row) if name != "daylight" and time == time)
    longest = max(best(row) / float(row["daylight_us"]) for row in rows)
    scale = WIDTH / longest
    top = y
    for row in rows:
        out.append(text(LEFT - 8, y + 2 * BAR + 4, row["workload"], anchor="end"))
        for name, time in times(row):
            if time == time:
                width = best(row) / time * scale
                out.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[name]}"/>')
                if name == "daylight":
                    out.append(text(f"{LEFT + width + 4:.1f}", y + BAR, f"{time:.1f} us", 9))
            y += BAR
        y += GAP
    for mark in (n / 2 for n in range(1, int(2 * longest) + 1)):
        x = LEFT + mark * scale
        out += [f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{y}" stroke="#bbb" stroke-dasharray="3,3"/>', text(f"{x:.1f}", y + 12, mark, 10, "middle")]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 70}" height="{y + 24}" font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>'
    open(sys.argv[2], "w").write("\n".join([head, *out, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
