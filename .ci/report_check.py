"""Opens the HTML report of the committed log in headless Chromium and clicks through it:

    report_check.py CHROMIUM report.html [FOLDER FOR SCREENSHOTS]

Fails where the page asks the network for something, an error reaches the console, text overlaps, an axis has no unit, or
sorting, filtering, choosing a function or a knob does not do what it says; checks the roofline in the page and beside it."""

import json
import pathlib
import sys
import time

from playwright.sync_api import sync_playwright

chromium, report = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
shots = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
SIZES = {"desk": (1280, 900), "phone": (390, 844)}

# Labels of a chart may not lie on each other, nor leave their chart.
OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll(":scope text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
    texts.forEach(([a, r], i) => {
      if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1) found.push(`${a} leaves its chart`);
      for (const [b, s] of texts.slice(i + 1)) {
        if (r.left < s.right - 1 && s.left < r.right - 1 && r.top < s.bottom - 2 && s.top < r.bottom - 2) found.push(`${a} lies on ${b}`);
      }
    });
  }
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) found.push("the page is wider than its window");
  return found;
}"""


def check(condition, what):
    if not condition:
        sys.exit(f"report: {what}")


def column(page, n):
    return page.eval_on_selector_all(f"#functions tbody tr td:nth-child({n})", "cells => cells.map((c) => c.textContent)")


def tidy(page, where):
    found = page.evaluate(OVERLAPS)
    check(not found, f"{where}: {found[:5]}")
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=shots / f"{where}.png", full_page=False)


def opened(page):
    start = time.monotonic()
    page.goto(report.as_uri())
    page.wait_for_selector("#functions tbody tr")
    return time.monotonic() - start


def walk(page, where, data):
    # The fastest of three: the first also waits for the browser, and any for what else the machine does.
    took = min(opened(page) for _ in range(3))
    check(took < 1.0, f"{where}: it took {took:.2f} s to open")
    total = len(data["functions"])
    check(page.text_content("#count") == f"{total} of {total}", "the count of functions")
    paper = roofline(page, where)
    tidy(page, f"{where}-top")
    # Sorting by the best time, down and up.
    page.click("#functions th:nth-child(4) button")
    times = [float(t) for t in column(page, 4) if t]
    check(times == sorted(times, reverse=True), "times are not sorted downwards")
    page.click("#functions th:nth-child(4) button")
    times = [float(t) for t in column(page, 4) if t]
    check(times == sorted(times) and page.get_attribute("#functions th:nth-child(4)", "aria-sort") == "ascending", "nor upwards")
    # Filtering.
    page.fill("#find", "softmax")
    names = column(page, 1)
    check(names and all("softmax" in n for n in names), "the filter shows others")
    rule = column(page, 8)[0]
    page.select_option("#rule", rule)
    check(set(column(page, 8)) == {rule}, "the rule's filter shows others")
    page.fill("#find", "")
    page.select_option("#rule", "")
    # A function, by the keyboard.
    at = max(range(total), key=lambda i: len(data["functions"][i]["candidates"]))
    best = data["functions"][at]
    page.fill("#find", best["name"])
    page.focus(f"#functions tr[data-at='{at}'] button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#detail h2")
    check(best["name"].split()[0] in page.text_content("#detail h2"), "another function is shown")
    page.wait_for_timeout(600)
    tidy(page, f"{where}-function")
    axes = page.eval_on_selector_all("#detail svg", "all => all.map((s) => s.getAttribute('aria-label'))")
    check(len(axes) == 2 and all("(us)" in a for a in axes), f"axes without a unit: {axes}")
    dots = page.locator("#detail .charts > div:nth-child(1) circle").count()
    check(dots == len(best["candidates"]), f"{dots} points of {len(best['candidates'])} candidates")
    knobs = page.eval_on_selector_all("#knob option", "all => all.map((o) => o.value)")
    page.select_option("#knob", knobs[-1])
    label = page.get_attribute("#detail .charts > div:nth-child(2) svg", "aria-label")
    check(label.startswith(f"Knob {knobs[-1]}:"), f"the knob's chart is another: {label}")
    page.click("#detail summary")
    check(page.is_visible("#detail details pre"), "the steps stay hidden")
    tidy(page, f"{where}-knob")
    # A point of the overview.
    page.fill("#find", "")
    page.locator("#overview circle").nth(3).dispatch_event("click")
    check(page.locator("tr[aria-selected=true]").count() == 1, "a point chooses no function")
    # The roofline by itself.
    page.goto(report.with_name("roofline.svg").as_uri())
    check(roofline(page, f"{where}-roofline") == paper, "the file of the roofline has other colours than the page")
    found = page.evaluate(OVERLAPS.replace("document.documentElement.scrollWidth >", "false &&"))
    check(not found, f"{where}-roofline: {found[:5]}")
    return paper


ROOFLINE = """() => {
  const svg = document.querySelector("svg.roofline");
  return {
    label: svg.getAttribute("aria-label"), points: svg.querySelectorAll("circle").length, roofs: svg.querySelectorAll(".roof").length,
    titles: [...svg.querySelectorAll("circle title")].map((t) => t.textContent), paper: getComputedStyle(svg.querySelector(".paper")).fill,
    ink: getComputedStyle(svg.querySelector(".title")).fill, texts: [...svg.querySelectorAll("text")].map((t) => t.textContent),
  };
}"""


def roofline(page, where):
    """The roofline of the page, or of its own file: points with names, ceilings, units; the colours that were asked for."""
    found = page.evaluate(ROOFLINE)
    check(found["points"] > 40 and found["roofs"] >= 3, f"{where}: {found['points']} points below {found['roofs']} ceilings")
    check("flop/byte" in found["label"] and "GFLOP/s" in found["label"], f"{where}: the axes have no units: {found['label']}")
    check(all("flop/byte" in t and "GFLOP/s" in t for t in found["titles"]), f"{where}: a point does not say where it is")
    check(any("TFLOP/s" in t for t in found["texts"]) and any("GB/s" in t for t in found["texts"]), f"{where}: ceilings have no names")
    check(found["paper"] != found["ink"], f"{where}: ink and paper are alike")
    return found["paper"]


def main():
    text = report.read_text()
    body = text.split('id="data">', 1)[1].split("</script>", 1)[0]
    data = json.loads(body)
    candidates = sum(len(f["candidates"]) for f in data["functions"])
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        papers = {}
        for scheme in ["light", "dark"]:
            for size, (width, height) in SIZES.items():
                context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
                page = context.new_page()
                asked, said = [], []
                page.on("request", lambda r: asked.append(r.url) if not r.url.startswith("file:") else None)
                page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
                page.on("pageerror", lambda e: said.append(str(e)))
                papers[scheme] = walk(page, f"{scheme}-{size}", data)
                check(not asked, f"it asks for {asked}")
                check(not said, f"it says {said}")
                context.close()
        check(papers["light"] != papers["dark"], "the roofline does not follow light and dark")
        page = browser.new_page()
        page.goto(report.as_uri())
        page.emulate_media(media="print")
        check(not page.is_visible("#filters"), "the filters are printed")
        browser.close()
    print(f"the report of {len(data['functions'])} functions and {candidates} candidates works, light and dark, wide and narrow")


main()
