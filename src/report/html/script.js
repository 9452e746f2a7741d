"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

/* An element with attributes and children; text is always text. */
function make(tag, attributes = {}, ...children) {
  const node = ["svg", "g", "circle", "line", "path", "text", "title"].includes(tag)
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return node;
}

const us = (x) => x === null || x === undefined ? "" : x >= 1000 ? x.toFixed(0) : x >= 100 ? x.toFixed(1) : x >= 10 ? x.toFixed(2) : x.toFixed(3);
const percent = (x) => x === null || x === undefined ? "" : (100 * x).toFixed(1) + " %";
/* Neighbours on the list are far apart on the wheel. */
const colour = (rule) => `hsl(${Math.round(data.rules.indexOf(rule) * 137.5) % 360} 62% var(--light))`;
const title = (f) => f.sizes ? `${f.name} ${f.sizes}` : f.name;

/* Ticks of a logarithmic axis: 1, 2, 5 and their multiples by ten. */
function logTicks(low, high) {
  const ticks = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1) {
    for (const m of [1, 2, 5]) {
      const v = m * 10 ** e;
      if (v >= low * 0.999 && v <= high * 1.001) ticks.push(v);
    }
  }
  const step = Math.ceil(ticks.length / 8);
  return ticks.length > 2 ? ticks.filter((_, i) => i % step === 0) : linearTicks(low, high);
}

function linearTicks(low, high) {
  const raw = (high - low) / 5 || 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= raw);
  const ticks = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) ticks.push(v);
  return ticks;
}

/* Room for a chart: on a wide window two lie side by side. */
const room = () => Math.max(280, Math.min(1150, document.documentElement.clientWidth - 60));
const half = () => room() > 900 ? room() / 2 - 40 : room() - 20;

/* A chart of points. x and y: { label, log, low, high, names }. A point: { x, y, colour, label, click, chosen }. */
function chart(label, x, y, points, width, extra = () => []) {
  const [height, left, bottom, top, right] = [300, 64, 46, 12, 16];
  const scale = (axis, from, to) => (v) => {
    const t = axis.log ? Math.log(v / axis.low) / Math.log(axis.high / axis.low) : (v - axis.low) / (axis.high - axis.low);
    return from + (Number.isFinite(t) ? t : 0.5) * (to - from);
  };
  const [px, py] = [scale(x, left, width - right), scale(y, height - bottom, top)];
  const ticks = (axis) => axis.names ? axis.names.map((_, i) => i) : axis.log ? logTicks(axis.low, axis.high) : linearTicks(axis.low, axis.high);
  const name = (axis, v) => axis.names ? axis.names[v] : axis.unit === "%" ? Math.round(100 * v) : v.toLocaleString("en", { maximumSignificantDigits: 3 });
  const widest = (axis, all) => 14 + 7.5 * Math.max(...all.map((v) => String(name(axis, v)).length));
  const grid = [
    ...ticks(y).map((v) => make("g", {},
      make("line", { class: "axis", x1: left, x2: width - right, y1: py(v), y2: py(v) }),
      make("text", { x: left - 8, y: py(v) + 4, "text-anchor": "end" }, String(name(y, v))))),
    ...ticks(x).filter((_, i, all) => i % Math.ceil(all.length * widest(x, all) / (width - left - right)) === 0).map((v) => make("text", { x: px(v), y: height - bottom + 18, "text-anchor": "middle" }, String(name(x, v)))),
    make("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, x.label),
    make("text", { x: 0, y: 0, transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, y.label),
  ];
  const dots = points.map((p) => make("circle", {
    cx: px(p.x).toFixed(1), cy: py(p.y).toFixed(1), r: p.chosen ? 5.5 : 4, fill: p.colour, class: p.chosen ? "chosen" : null, onclick: p.click,
  }, make("title", {}, p.label)));
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}: ${x.label} and ${y.label}, ${points.length} points` },
    grid, extra(px, py, { left, right: width - right, top, bottom: height - bottom }), dots);
  return make("div", { class: "chart" }, svg);
}

function legend(rules) {
  return make("div", { class: "legend" }, rules.map((r) => make("span", {}, make("i", { style: `background:${colour(r)}` }), r)));
}

const range = (values, pad = 1.15) => [Math.min(...values) / pad, Math.max(...values) * pad];

/* --- Overview --- */
function overview() {
  const shown = visible().filter((f) => f.best_us && f.floor_us);
  const host = byId("overview");
  host.replaceChildren();
  if (!shown.length) { host.append(make("p", { class: "hint" }, "No function shown has both a time and a floor.")); return; }
  const [low, high] = range(shown.map((f) => f.floor_us), 1.3);
  const most = Math.min(1.25, Math.max(1.1, ...shown.map((f) => f.floor_us / f.best_us)));
  const points = shown.map((f) => ({
    x: f.floor_us, y: Math.min(most, f.floor_us / f.best_us), colour: colour(f.rule), chosen: f === selected, click: () => select(f),
    label: `${title(f)} on ${f.target}: ${us(f.best_us)} us, ${percent(f.floor_us / f.best_us)} of the floor, ${f.rule}`,
  }));
  host.append(chart("Functions", { label: "floor (us)", log: true, low, high }, { label: "share of the floor (%)", unit: "%", low: 0, high: most }, points, room(),
    (px, py, box) => [make("line", { class: "level", x1: box.left, x2: box.right, y1: py(1), y2: py(1) })]), legend([...new Set(shown.map((f) => f.rule))].sort()));
}

/* --- Table of functions --- */
const COLUMNS = [
  ["function", (f) => title(f), "text"], ["target", (f) => f.target, "text"], ["default (us)", (f) => f.default_us, "us"],
  ["best (us)", (f) => f.best_us, "us"], ["speedup", (f) => f.speedup, "x"], ["floor (us)", (f) => f.floor_us, "us"],
  ["of floor", (f) => f.floor_us && f.best_us ? f.floor_us / f.best_us : null, "share"], ["rule", (f) => f.rule, "text"],
  ["tried", (f) => f.candidates.length, "count"],
];
/* The fastest of others over the tuned kernel, where there was a bench. */
const others = (f) => f.peers.filter((p) => p.over && !["tuned", "default", "picked"].includes(p.name)).map((p) => p.over);
if (data.functions.some((f) => others(f).length)) COLUMNS.splice(7, 0, ["best other", (f) => others(f).length ? Math.min(...others(f)) : null, "x"]);
let order = { column: 0, down: false };
let selected = null;

function visible() {
  const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [target, rule] = [byId("target").value, byId("rule").value];
  const text = (f) => `${title(f)} ${f.target} ${f.rule} ${f.knobs} ${f.gpu}`.toLowerCase();
  return data.functions.filter((f) => (!target || f.target === target) && (!rule || f.rule === rule) && words.every((w) => text(f).includes(w)));
}

function sorted(list) {
  const value = COLUMNS[order.column][1];
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || x === undefined || y === null || y === undefined) return (x === null || x === undefined) - (y === null || y === undefined);
    const sign = order.down ? -1 : 1;
    return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
  };
  return [...list].sort(compare);
}

function cell(f, [, value, kind]) {
  const v = value(f);
  if (kind === "text") return make("td", {}, v || "");
  if (kind === "share") return make("td", { class: "number" }, v > 1 ? "cache-resident" : percent(v));
  return make("td", { class: "number" }, kind === "us" ? us(v) : kind === "x" ? (v ? v.toFixed(2) + " x" : "") : String(v));
}

function table() {
  const head = COLUMNS.map(([name, , kind], i) => make("th", {
    scope: "col", class: kind === "text" ? null : "number", "aria-sort": i === order.column ? (order.down ? "descending" : "ascending") : "none",
  }, make("button", { type: "button", onclick: () => { order = { column: i, down: i === order.column ? !order.down : kind !== "text" }; table(); } },
    name + (i === order.column ? (order.down ? " \u2193" : " \u2191") : ""))));
  byId("functions").tHead.replaceChildren(make("tr", {}, head));
  const rows = sorted(visible()).map((f) => {
    const cells = COLUMNS.map((c) => cell(f, c));
    cells[0].replaceChildren(make("button", { type: "button", onclick: () => select(f) }, title(f)));
    return make("tr", { "data-at": data.functions.indexOf(f), "aria-selected": f === selected ? "true" : "false" }, cells);
  });
  byId("functions").tBodies[0].replaceChildren(...rows);
  byId("count").textContent = `${rows.length} of ${data.functions.length}`;
}

/* --- One function --- */
function select(f) {
  selected = f;
  table();
  overview();
  detail(f);
  byId("detail").scrollIntoView({ behavior: "smooth", block: "start" });
}

const timed = (f) => f.candidates.filter((c) => c.us);

function progress(f) {
  const list = timed(f);
  const [low, high] = range(list.map((c) => c.us));
  let best = Infinity;
  const steps = list.map((c, i) => { best = Math.min(best, c.us); return [i + 1, best]; });
  const line = (px, py) => [make("path", { class: "best", d: steps.map(([i, v], n) => (n ? `H${px(i).toFixed(1)}V` : `M${px(i).toFixed(1)} `) + py(v).toFixed(1)).join("") })];
  return chart("Search", { label: "candidate, in the order measured", low: 0.5, high: list.length + 0.5 }, { label: "time (us)", log: true, low, high },
    list.map((c, i) => ({ x: i + 1, y: c.us, colour: colour(c.rule), label: describe(c), chosen: c.best })), half(), line);
}

const describe = (c) => `${us(c.us)} us, ${c.rule}: ${Object.entries(c.knobs).map(([k, v]) => `${k}=${v}`).join(" ")}${c.default ? " (the default)" : ""}`;
const knobsOf = (f) => [...new Set(timed(f).flatMap((c) => Object.keys(c.knobs)))].sort()
  .filter((k) => new Set(timed(f).map((c) => c.knobs[k])).size > 1);
const byValue = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
const valuesOf = (f, knob) => [...new Set(timed(f).map((c) => c.knobs[knob]).filter((v) => v !== undefined))].sort(byValue);

function against(f, knob) {
  const list = timed(f).filter((c) => c.knobs[knob] !== undefined);
  const values = valuesOf(f, knob);
  const [low, high] = range(list.map((c) => c.us));
  return chart(`Knob ${knob}`, { label: knob, low: -0.5, high: values.length - 0.5, names: values.map(String) }, { label: "time (us)", log: true, low, high },
    list.map((c) => ({ x: values.indexOf(c.knobs[knob]), y: c.us, colour: colour(c.rule), label: describe(c), chosen: c.best })), half());
}

/* What the best of each value loses against the best of all. */
function worth(f) {
  const best = Math.min(...timed(f).map((c) => c.us));
  const of = (knob, v) => Math.min(...timed(f).filter((c) => c.knobs[knob] === v).map((c) => c.us));
  const rows = knobsOf(f).map((knob) => {
    const all = valuesOf(f, knob).map((v) => [v, of(knob, v) / best]);
    return { knob, all, most: Math.max(...all.map((a) => a[1])) };
  }).sort((a, b) => b.most - a.most);
  return rows.map((r) => make("tr", {}, make("th", { scope: "row" }, r.knob), make("td", { class: "number" }, `${r.most.toFixed(2)} x`),
    make("td", { class: "wide" }, r.all.map(([v, t]) => `${v}: ${t.toFixed(2)}`).join(", "))));
}

function simpleTable(head, rows, label) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, make("table", {},
    make("thead", {}, make("tr", {}, head.map(([name, number]) => make("th", { scope: "col", class: number ? "number" : null }, name)))), make("tbody", {}, rows)));
}

function detail(f) {
  const fact = (name, value) => value ? [make("dt", {}, name), make("dd", {}, value)] : [];
  const host = byId("detail");
  host.hidden = false;
  const facts = make("dl", {},
    fact("best", f.best_us ? `${us(f.best_us)} us (${us(f.low_us)} to ${us(f.high_us)} in 95 of 100 cases, median of ${f.samples})` : "no candidate survived"),
    fact("default", f.default_us ? `${us(f.default_us)} us` : ""), fact("floor", f.floor_us ? `${us(f.floor_us)} us` : ""),
    fact("kernel", f.rule ? `${f.rule}: ${f.knobs}` : ""), fact("needs", f.res), fact("differs from the reference by", f.error),
    fact("compiler warnings", f.warnings), fact("machine", f.machine), fact("while measured", f.state), fact("policy", f.policy), fact("workload", f.key));
  const parts = [make("h2", {}, `${title(f)} on ${f.target}`), facts];
  if (f.rule) {
    parts.push(make("p", { class: "hint" }, "Its text, from the file of the function:"), make("pre", {},
      `daylight explain FILE --target ${f.target} --rule ${f.rule} ${f.knobs.split(" ").filter(Boolean).map((k) => `--set ${k}`).join(" ")} --emit ${f.target.startsWith("cuda") ? "cuda" : "c"}`));
  }
  if (timed(f).length > 1) {
    const knobs = knobsOf(f);
    const slot = make("div", {});
    const pick = make("select", { id: "knob", onchange: () => slot.replaceChildren(against(f, pick.value)) }, knobs.map((k) => make("option", { value: k }, k)));
    if (knobs.length) slot.append(against(f, knobs[0]));
    parts.push(legend([...new Set(timed(f).map((c) => c.rule))].sort()), make("div", { class: "charts" },
      make("div", {}, make("h3", {}, "Search"), progress(f)),
      knobs.length ? make("div", {}, make("h3", {}, make("label", {}, "Time by ", pick)), slot) : null));
    if (knobs.length) {
      parts.push(make("h3", {}, "What each knob is worth"), make("p", { class: "hint" }, "Best time of all candidates with a value, over the best of all."),
        simpleTable([["knob"], ["worst value", true], ["by value"]], worth(f), "What each knob is worth"));
    }
  }
  if (f.peers.length) {
    parts.push(make("h3", {}, "Against others"), make("p", { class: "hint" }, "Timed turn by turn in one run of daylight bench."),
      simpleTable([["contender"], ["time (us)", true], ["over tuned", true], [""]], f.peers.map((p) => make("tr", {}, make("td", {}, p.name),
        make("td", { class: "number" }, us(p.us)), make("td", { class: "number" }, p.over ? `${p.over.toFixed(3)} x` : ""),
        make("td", { class: "wide" }, p.status === "ok" ? p.detail || "" : `${p.status}: ${p.reason || ""}`))), "Against others"));
  }
  if (f.losers.length) {
    parts.push(make("h3", {}, "Candidates without a time"), simpleTable([["outcome"], ["reason"], ["candidates", true]],
      f.losers.map((l) => make("tr", {}, make("td", {}, l.outcome), make("td", { class: "wide" }, l.reason), make("td", { class: "number" }, String(l.count)))), "Candidates without a time"));
  }
  if (f.steps.length) parts.push(make("details", {}, make("summary", {}, `Steps of the schedule (${f.steps.length})`), make("pre", {}, f.steps.join("\n"))));
  host.replaceChildren(...parts);
}

/* --- Start --- */
function options(id, values) {
  byId(id).replaceChildren(make("option", { value: "" }, "all"), ...values.map((v) => make("option", { value: v }, v)));
}

const distinct = (of) => [...new Set(data.functions.map(of).filter(Boolean))].sort();
options("target", distinct((f) => f.target));
options("rule", distinct((f) => f.rule));
for (const id of ["find", "target", "rule"]) byId(id).addEventListener("input", () => { table(); overview(); });
const gains = data.functions.filter((f) => f.speedup).map((f) => Math.log(f.speedup));
const mean = gains.length ? Math.exp(gains.reduce((a, b) => a + b, 0) / gains.length) : null;
byId("summary").textContent = `${data.functions.length} functions, ${data.records} records` +
  (mean ? `; tuned kernels are ${mean.toFixed(2)} times as fast as the defaults (geometric mean of ${gains.length})` : "");
byId("measured").tHead.replaceChildren(make("tr", {}, data.places.head.map((h) => make("th", { scope: "col" }, h))));
byId("measured").tBodies[0].replaceChildren(...data.places.rows.map((r) => make("tr", {}, r.map((c) => make("td", {}, c)))));
let wide = room();
addEventListener("resize", () => {
  if (room() === wide) return;
  wide = room();
  overview();
  if (selected) detail(selected);
});
table();
overview();
