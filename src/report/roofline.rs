//! The roofline: operations per byte of each function against the rate that its best kernel reaches, below the machine's
//! ceilings. One panel for each target and device.

use super::Row;
use super::labels::{Area, Room};
use crate::log::pairs;
use crate::target::{HostCpu, Target};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Size of a panel, and of its plot inside it.
const PANEL: (f64, f64) = (960.0, 620.0);
const PLOT: Area = Area { left: 76.0, top: 40.0, right: 940.0, bottom: 520.0 };
/// Most characters of a name.
const LONGEST: usize = 30;
/// Follows the reader's choice of light or dark, in a page and on its own.
const STYLE: &str = "\
.roofline{--ink:#1d2330;--soft:#5b6474;--paper:#fcfcfd;--line:#d5dae2;--accent:#0b62c4;font:10px ui-monospace,Menlo,'DejaVu Sans Mono',monospace}
@media (prefers-color-scheme:dark){.roofline{--ink:#e6e9ef;--soft:#a2abba;--paper:#14171d;--line:#363d4a;--accent:#7db4ff}}
@media print{.roofline{--ink:#000;--soft:#444;--paper:#fff;--line:#bbb;--accent:#0b62c4}}
.roofline .paper{fill:var(--paper)}
.roofline text{fill:var(--soft)}
.roofline .title{fill:var(--ink);font-size:12px}
.roofline .axis{stroke:var(--line)}
.roofline .roof{stroke:var(--ink);stroke-width:1.5;fill:none}
.roofline .lead{stroke:var(--soft);stroke-width:.5}
.roofline circle{fill:var(--accent);fill-opacity:.75}";

/// The roofline as SVG. The same rows give the same bytes.
pub fn roofline(rows: &[Row<'_>]) -> String {
    let mut machines: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        machines.entry((&row.any.target, &row.any.env.gpu)).or_default().push(row);
    }
    let height = PANEL.1 * machines.len().max(1) as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"roofline\" viewBox=\"0 0 {} {height}\" role=\"img\" \
         aria-label=\"Roofline: operations per byte (flop/byte) and rate (GFLOP/s)\"><style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{}\" height=\"{height}\"/>\n",
        PANEL.0, PANEL.0
    );
    for (i, ((target, gpu), rows)) in machines.iter().enumerate() {
        let panel = Panel::of(target, gpu, rows);
        writeln!(out, "<g transform=\"translate(0 {})\">\n{}</g>", PANEL.1 * i as f64, panel.svg())
            .expect("a String takes all");
    }
    out + "</svg>\n"
}

/// One function.
struct Point {
    /// Operations per byte.
    intensity: f64,
    /// GFLOP/s.
    rate: f64,
    name: String,
    told: String,
}

/// A horizontal ceiling.
struct Peak {
    /// GFLOP/s.
    rate: f64,
    name: String,
}

struct Panel {
    title: String,
    points: Vec<Point>,
    /// Functions without a point, by why.
    idle: usize,
    unknown: usize,
    untimed: usize,
    /// GB/s that the best copy reaches; 0 where it is not known.
    copy: f64,
    peaks: Vec<Peak>,
    /// Whose figures the ceilings are.
    source: String,
}

impl Panel {
    fn of(target: &str, gpu: &str, rows: &[&Row<'_>]) -> Panel {
        let (copy, peaks, source) = ceilings(target, rows);
        let title = format!("{target} ({gpu})");
        let mut panel = Panel { title, points: vec![], idle: 0, unknown: 0, untimed: 0, copy, peaks, source };
        for row in rows {
            match (row.work, row.best_us) {
                (_, None) => panel.untimed += 1,
                (None, _) => panel.unknown += 1,
                (Some(work), _) if work.flops == 0 || work.bytes == 0 => panel.idle += 1,
                (Some(work), Some(us)) => panel.points.push(point(row, (work.flops as f64, work.bytes as f64), us)),
            }
        }
        panel
    }

    fn svg(&self) -> String {
        let mut out = text((PLOT.left, 22.0), "start", "title", &self.title);
        if self.points.is_empty() {
            return out + &self.caption(0);
        }
        let axes = Axes::around(&self.points, self.copy, &self.peaks);
        let mut room = Room::new(PLOT);
        out += &axes.svg();
        out += &self.roofs(&axes, &mut room);
        self.points.iter().for_each(|p| room.take(Area::around(axes.at(p.intensity, p.rate), 8.0, 8.0)));
        let mut nameless = 0;
        for p in &self.points {
            let (x, y) = axes.at(p.intensity, p.rate);
            match room.beside((x, y), &p.name) {
                Some(at) => out += &name_beside((x, y), at, &p.name),
                None => nameless += 1,
            }
            let told = escape(&p.told);
            writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{told}</title></circle>")
                .expect("a String takes all");
        }
        out + &self.caption(nameless)
    }

    /// The copy ceiling, and the peaks from where it meets them.
    fn roofs(&self, axes: &Axes, room: &mut Room) -> String {
        let mut out = String::new();
        let top = self.peaks.iter().map(|p| p.rate).fold(0.0, f64::max);
        if self.copy > 0.0 {
            let end = if top > 0.0 { (top / self.copy).min(axes.x.1) } else { axes.x.1 }.min(axes.y.1 / self.copy);
            let start = axes.x.0.max(axes.y.0 / self.copy);
            out += &line("roof", axes.at(start, self.copy * start), axes.at(end, self.copy * end));
            let name = format!("copy {:.0} GB/s", self.copy);
            if let Some(at) = room.beside(axes.at(start * 1.05, self.copy * start), &name) {
                out += &text((at.0, at.1 + 3.5), "middle", "", &name);
            }
        }
        for peak in self.peaks.iter().filter(|p| p.rate <= axes.y.1 && p.rate >= axes.y.0) {
            let ridge = if self.copy > 0.0 { peak.rate / self.copy } else { axes.x.0 };
            if ridge >= axes.x.1 {
                continue;
            }
            let ((x, y), end) = (axes.at(ridge.max(axes.x.0), peak.rate), axes.at(axes.x.1, peak.rate));
            out += &line("roof", (x, y), end);
            if let Some(at) = room.along(end, &peak.name) {
                out += &text((at.0, at.1 + 3.5), "middle", "", &peak.name);
            }
        }
        out
    }

    fn caption(&self, nameless: usize) -> String {
        let count = |n: usize, text: &str| (n > 0).then(|| format!("{n} {text}"));
        let left_out = [
            count(self.idle, "do no arithmetic"),
            count(self.untimed, "have no time"),
            count(
                self.unknown,
                "are of records that do not say what there is to do (`report --functions FILE` works it out)",
            ),
        ];
        let left_out: Vec<String> = left_out.into_iter().flatten().collect();
        let mut lines =
            vec![format!("{} functions at the medians of their best kernels. {}", self.points.len(), self.source)];
        lines.extend((!left_out.is_empty()).then(|| format!("Without a point: {}.", left_out.join(", "))));
        lines.extend(count(nameless, "names have no room: a point tells its name when it is pointed at."));
        let each = lines.iter().enumerate().map(|(i, l)| text((PLOT.left, 578.0 + 15.0 * i as f64), "start", "", l));
        each.collect()
    }
}

fn point(row: &Row<'_>, (flops, bytes): (f64, f64), us: f64) -> Point {
    let r = row.any;
    let full =
        if r.bind.is_empty() { r.workload.name.clone() } else { format!("{} {}", r.workload.name, pairs(&r.bind)) };
    let (intensity, rate) = (flops / bytes, flops / us / 1e3);
    let share = row.best.and_then(|b| b.floor_us).map(|floor| format!(", {:.0} % of its floor", 100.0 * floor / us));
    let rule = row.best.map(|b| b.rule.as_str()).unwrap_or_default();
    let told =
        format!("{full}: {us:.3} us, {intensity:.3} flop/byte, {rate:.1} GFLOP/s{}, {rule}", share.unwrap_or_default());
    let cut = full.chars().count() > LONGEST;
    let name = if cut { full.chars().take(LONGEST - 1).chain(['…']).collect() } else { full };
    Point { intensity, rate, name, told }
}

/// Copy ceiling in GB/s, peaks, and whose figures these are. Of a CPU the floors tell what its memory was measured to copy.
fn ceilings(target: &str, rows: &[&Row<'_>]) -> (f64, Vec<Peak>, String) {
    let known =
        Target::parse(target, &HostCpu::default()).ok().filter(|t| t.copy_gbps > 0.0 || !t.peak_tflops.is_empty());
    if let Some(known) = known {
        let mut rates: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (dtype, tflops) in &known.peak_tflops {
            rates.entry((tflops * 1e3) as u64).or_default().push(dtype.to_string());
        }
        let peak = |(rate, dtypes): (&u64, &Vec<String>)| Peak {
            rate: *rate as f64,
            name: format!("{} {} TFLOP/s", dtypes.join(", "), *rate as f64 / 1e3),
        };
        let source = format!("Ceilings: the best copy and the peak arithmetic of {}.", known.product);
        return (known.copy_gbps, rates.iter().map(peak).collect(), source);
    }
    let copy = |row: &&Row| Some(row.work?.bytes as f64 / row.best?.floor_us? / 1e3);
    match rows.iter().filter_map(copy).max_by(f64::total_cmp) {
        Some(gbps) => {
            (gbps, vec![], "Ceiling: the copy measured on this machine; its peak arithmetic is not known.".into())
        }
        None => (0.0, vec![], "No ceiling of this machine is known.".into()),
    }
}

/// Two logarithmic axes: their least and greatest values.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    /// Room for all points, and for the ceilings above them.
    fn around(points: &[Point], copy: f64, peaks: &[Peak]) -> Axes {
        let range = |of: fn(&Point) -> f64| {
            points.iter().map(of).fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)))
        };
        let ((left, right), (bottom, top)) = (range(|p| p.intensity), range(|p| p.rate));
        let x = (left / 2.5, right * 2.5);
        let most = peaks.iter().map(|p| p.rate).fold(0.0, f64::max);
        let roof = if most > 0.0 { (copy * x.1).min(most) } else { copy * x.1 };
        Axes { x, y: (bottom.min(if copy > 0.0 { copy * x.0 } else { bottom }) / 2.0, top.max(roof) * 2.2) }
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let part = |v: f64, (low, high): (f64, f64)| (v / low).ln() / (high / low).ln();
        let (across, up) = (part(x, self.x), part(y, self.y));
        (PLOT.left + across * (PLOT.right - PLOT.left), PLOT.bottom - up * (PLOT.bottom - PLOT.top))
    }

    fn svg(&self) -> String {
        let mut out = String::new();
        for v in ticks(self.x) {
            let (x, _) = self.at(v, self.y.0);
            out += &line("axis", (x, PLOT.top), (x, PLOT.bottom));
            out += &text((x, PLOT.bottom + 16.0), "middle", "", &v.to_string());
        }
        for v in ticks(self.y) {
            let (_, y) = self.at(self.x.0, v);
            out += &line("axis", (PLOT.left, y), (PLOT.right, y));
            out += &text((PLOT.left - 8.0, y + 3.5), "end", "", &v.to_string());
        }
        let middle = ((PLOT.left + PLOT.right) / 2.0, (PLOT.top + PLOT.bottom) / 2.0);
        out += &text((middle.0, PLOT.bottom + 36.0), "middle", "", "operations per byte (flop/byte)");
        let turned = format!("translate(14 {}) rotate(-90)", middle.1);
        writeln!(out, "<text transform=\"{turned}\" text-anchor=\"middle\">rate (GFLOP/s)</text>")
            .expect("a String takes all");
        out
    }
}

/// Powers of ten of a range; 1, 2, 5 and their multiples where these are few.
fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let of = |steps: &[f64]| -> Vec<f64> {
        let exponents = low.log10().floor() as i32..=high.log10().ceil() as i32;
        // By way of text, which has no 0.30000000000000004.
        let value = |e: i32, m: &f64| format!("{m}e{e}").parse::<f64>().unwrap_or(0.0);
        let all = exponents.flat_map(|e| steps.iter().map(move |m| value(e, m)));
        all.filter(|v| *v >= low && *v <= high).collect()
    };
    let tens = of(&[1.0]);
    if tens.len() >= 3 { tens } else { of(&[1.0, 2.0, 5.0]) }
}

fn name_beside((x, y): (f64, f64), at: (f64, f64), name: &str) -> String {
    // A name that is not next to its point has a line to it.
    let half = 6.2 * name.chars().count() as f64 / 2.0;
    let near = (x.clamp(at.0 - half, at.0 + half), y.clamp(at.1 - 5.0, at.1 + 5.0));
    let far = (near.0 - x).hypot(near.1 - y) > 14.0;
    let lead = if far { line("lead", (x, y), near) } else { String::new() };
    lead + &text((at.0, at.1 + 3.5), "middle", "", name)
}

fn line(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> String {
    format!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n")
}

fn text((x, y): (f64, f64), anchor: &str, class: &str, content: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<text{class} x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escape(content))
}

/// Names are other people's: nothing of them is markup.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Outcome, Record, Work, Workload};
    use crate::report::rows;

    fn record(name: &str, target: &str, us: f64, work: Option<Work>) -> Record {
        let workload = Workload { key: format!("{name:k<32}"), name: name.into() };
        let floor_us = Some(us / 2.0);
        Record {
            samples_ns: vec![us * 1e3],
            work,
            floor_us,
            ..Record::new(workload, BTreeMap::new(), target, Outcome::Ok)
        }
    }

    #[test]
    fn each_function_is_a_point_at_its_place() {
        let work = |flops, bytes| Some(Work { flops, bytes });
        let log = [
            record("row_sum", "cuda:sm_90a", 20.0, work(16 << 20, 64 << 20)),
            record("product", "cuda:sm_90a", 1400.0, work(1 << 40, 400 << 20)),
            record("copy", "cuda:sm_90a", 30.0, work(0, 64 << 20)),
            record("old", "cuda:sm_90a", 30.0, None),
        ];
        let svg = roofline(&rows(&log));
        assert_eq!(svg.matches("<circle").count(), 2);
        for said in [
            "<title>row_sum: 20.000 us, 0.250 flop/byte, 838.9 GFLOP/s, 50 % of its floor, </title>",
            ">copy 4450 GB/s</text>",
            "TFLOP/s</text>",
            "Without a point: 1 do no arithmetic, 1 are of records",
            "operations per byte (flop/byte)</text>",
            "prefers-color-scheme:dark",
        ] {
            assert!(svg.contains(said), "{said}: {svg}");
        }
        let places: Vec<f64> =
            svg.split("<circle cx=\"").skip(1).filter_map(|s| s.split('"').next()?.parse().ok()).collect();
        assert!(places.windows(2).all(|w| w[0] != w[1]), "{places:?}");
    }

    #[test]
    fn what_copies_as_fast_as_the_best_copy_is_on_the_roof() {
        let bytes = 4_450_000_000;
        let log = [record("f", "cuda:sm_90a", 1e3, Some(Work { flops: bytes, bytes }))];
        let found = rows(&log);
        let panel = Panel::of("cuda:sm_90a", "", &found.iter().collect::<Vec<_>>());
        assert!(
            (panel.points[0].rate - panel.copy * panel.points[0].intensity).abs() < 1e-6,
            "{}",
            panel.points[0].rate
        );
    }

    #[test]
    fn a_cpu_has_the_ceiling_of_its_floors_and_names_stay_text() {
        let name = "</text><script>";
        let log = [record(name, "cpu:x86-64-v3", 1000.0, Some(Work { flops: 1_000_000, bytes: 4_000_000 }))];
        let svg = roofline(&rows(&log));
        assert!(svg.contains("copy 8 GB/s") && !svg.contains("<script"), "{svg}");
        assert!(roofline(&[]).ends_with("</svg>\n"));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks((0.04, 300.0)), [0.1, 1.0, 10.0, 100.0]);
        assert_eq!(ticks((0.15, 4.0)), [0.2, 0.5, 1.0, 2.0]);
    }
}
