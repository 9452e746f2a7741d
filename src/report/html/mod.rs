//! The report as one page: no network, no file beside it. What the log says lies in the page as JSON, which its script
//! shows; names and reasons are other people's and only ever text.

use super::{Row, losers, places, roofline};
use crate::log::{self, DeviceState, Median, Outcome, Record, Warning, pairs};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The report as HTML. The same records give the same bytes, in any order.
pub fn html(rows: &[Row<'_>]) -> String {
    let functions: Vec<Value> = rows.iter().map(function).collect();
    let records = || rows.iter().flat_map(|row| &row.group);
    let rules: BTreeSet<&str> = records().map(|r| r.rule.as_str()).filter(|r| !r.is_empty()).collect();
    let places =
        json!({ "head": ["target", "device", "driver", "compiler", "Daylight", "policy"], "rows": places(rows) });
    let data = json!({ "records": records().count(), "functions": functions, "rules": rules, "places": places });
    let page = PAGE.replace("/*style*/", STYLE).replace("/*script*/", SCRIPT);
    // Last: nothing is looked for in what it says.
    page.replace("/*data*/", &in_script(&data)).replace("<!--roofline-->", &roofline(rows))
}

/// JSON that cannot end the element it stands in.
fn in_script(data: &Value) -> String {
    data.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

fn function(row: &Row<'_>) -> Value {
    let (any, best) = (row.any, row.best);
    let median = best.and_then(|b| Median::of(&b.samples_ns));
    let machine = [any.env.gpu.as_str(), &any.env.driver, &any.env.nvrtc].join(", ");
    let us = |ns: Option<f64>| ns.map(|ns| rounded(ns / 1e3));
    json!({
        "name": any.workload.name, "key": any.workload.key, "sizes": pairs(&any.bind), "target": any.target, "gpu": any.env.gpu,
        "default_us": row.default_us.map(rounded), "best_us": row.best_us.map(rounded),
        "low_us": us(median.map(|m| m.low)), "high_us": us(median.map(|m| m.high)), "samples": best.map_or(0, |b| b.samples_ns.len()),
        "speedup": speedup(row).map(rounded), "floor_us": best.and_then(|b| b.floor_us).map(rounded),
        "rule": best.map_or("", |b| &b.rule), "knobs": best.map(|b| pairs(&b.knobs)).unwrap_or_default(),
        "res": best.and_then(|b| b.res).map(|r| format!("{} registers, {} bytes spilled, {} bytes of shared memory", r.regs, r.spill, r.smem)),
        "error": best.and_then(|b| b.err?.max).map(|e| format!("{e:.1e}")),
        "warnings": best.map(|b| b.warnings.iter().map(Warning::name).collect::<Vec<_>>().join("; ")),
        "machine": machine,
        "state": best.and_then(|b| b.state.as_ref()).map(state), "policy": any.policy.id,
        "steps": best.map_or(&[][..], |b| &b.trace), "losers": lost(row), "candidates": candidates(row), "peers": peers(row),
    })
}

/// Default over best, where both were measured turn by turn, or one is the other.
fn speedup(row: &Row<'_>) -> Option<f64> {
    let best = row.best?;
    if best.default {
        return Some(1.0);
    }
    let default = row.default.filter(|d| d.took_turns_with(best))?;
    log::speedup(&default.samples_ns, &best.samples_ns).map(|m| m.value)
}

/// Each candidate that has a time once, by its last, in the order of the first.
fn candidates(row: &Row<'_>) -> Vec<Value> {
    let mut ok: Vec<&&Record> = row.group.iter().filter(|r| r.outcome == Outcome::Ok).collect();
    ok.sort_by_key(|r| (r.unix_s, r.round, r.candidate(), &r.crc32c));
    let (mut order, mut last) = (vec![], BTreeMap::new());
    for r in ok {
        if last.insert(r.candidate(), r).is_none() {
            order.push(r.candidate());
        }
    }
    let best = row.best.map(Record::candidate);
    let one = |id: &log::CandidateId| {
        let r = last.get(id)?;
        let us = rounded(log::median(&r.samples_ns)? / 1e3);
        Some(
            json!({ "rule": r.rule, "knobs": r.knobs, "us": us, "default": r.default, "best": Some(id) == best.as_ref() }),
        )
    };
    order.iter().filter_map(one).collect()
}

/// Who took part in the bench of the function.
fn peers(row: &Row<'_>) -> Vec<Value> {
    let timed = row.peers();
    let each = row.bench.iter().flat_map(|b| &b.contenders);
    each.map(|c| {
        let peer = timed.iter().find(|p| p.name == c.contender);
        json!({
            "name": c.contender, "us": peer.map(|p| rounded(p.us)), "over": peer.and_then(|p| p.over_tuned).map(rounded),
            "status": c.status, "reason": c.reason, "detail": c.detail,
        })
    })
    .collect()
}

/// Candidates without a time, by what became of them and why.
fn lost(row: &Row<'_>) -> Vec<Value> {
    let each = losers(&row.group).into_iter();
    each.map(|((outcome, reason), count)| json!({ "outcome": outcome, "reason": reason, "count": count })).collect()
}

fn state(s: &DeviceState) -> String {
    let mut said = vec![format!("{} MHz", s.sm_mhz)];
    said.extend((s.mem_mhz > 0).then(|| format!("memory {} MHz", s.mem_mhz)));
    said.extend((s.temperature_c > 0).then(|| format!("{} °C", s.temperature_c)));
    said.extend((!s.throttle.is_empty()).then(|| format!("held down by {}", s.throttle.join(" and "))));
    said.extend((s.processes > 0).then(|| format!("{} other processes", s.processes)));
    said.join(", ")
}

/// Six digits, which is more than any time has.
fn rounded(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Workload;
    use crate::report::rows;

    fn record(name: &str, x: i64, us: f64) -> Record {
        let workload = Workload { key: "k".repeat(32), name: name.into() };
        Record {
            rule: "gemv".into(),
            knobs: [("threads".to_string(), x.into())].into(),
            samples_ns: vec![us * 1e3; 9],
            default: x == 1,
            round: 1,
            ..Record::new(workload, BTreeMap::new(), "cuda:sm_90a", Outcome::Ok)
        }
    }

    fn data(page: &str) -> Value {
        let start = page.find("id=\"data\">").expect("the data") + 10;
        let end = start + page[start..].find("</script>").expect("its end");
        serde_json::from_str(&page[start..end]).expect("JSON")
    }

    #[test]
    fn the_page_has_what_the_log_has_in_any_order() {
        let mut log = vec![record("f", 1, 40.0), record("f", 2, 20.0)];
        let page = html(&rows(&log));
        let f = &data(&page)["functions"][0];
        assert_eq!((&f["best_us"], &f["speedup"], &f["knobs"]), (&20.0.into(), &2.0.into(), &"threads=2".into()));
        assert_eq!(f["candidates"].as_array().map(Vec::len), Some(2));
        log.reverse();
        assert!(html(&rows(&log)) == page, "another page");
        assert!(
            !page.contains("http://") || page.matches("http://").count() == page.matches("http://www.w3.org").count()
        );
        assert!(!page.contains("https://") && !page.contains("src="), "the page asks nobody for anything");
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let name = "</script><img src=x onerror=alert(1)>";
        let page = html(&rows(&[record(name, 1, 1.0)]));
        assert!(!page.contains("<img") && data(&page)["functions"][0]["name"] == name);
    }
}
