//! A log as CSV: one row for each record, one column for each knob.

use crate::log::line::nine_digits;
use crate::log::{DeviceState, Record, Warning, median, pairs};
use std::collections::BTreeSet;

/// A column and what stands in it.
type Column = (&'static str, fn(&Record) -> String);

/// The columns before those of the knobs, which are `knob.<name>`.
const COLUMNS: [Column; 46] = [
    ("workload", |r| r.workload.name.clone()),
    ("key", |r| r.workload.key.clone()),
    ("bind", |r| pairs(&r.bind)),
    ("target", |r| r.target.clone()),
    ("gpu", |r| r.env.gpu.clone()),
    ("cc", |r| r.env.cc.clone()),
    ("sms", |r| r.env.sms.to_string()),
    ("driver", |r| r.env.driver.clone()),
    ("compiler", |r| r.env.nvrtc.clone()),
    ("daylight", |r| r.env.daylight.clone()),
    ("policy", |r| r.policy.id.clone()),
    ("flags", |r| r.policy.flags.join(" ")),
    ("rule", |r| r.rule.clone()),
    ("rule_version", |r| r.rule_version.to_string()),
    ("default", |r| r.default.to_string()),
    ("run", |r| r.run.clone()),
    ("round", |r| r.round.to_string()),
    ("outcome", |r| r.outcome.name().to_string()),
    ("reason", |r| r.reason.clone().unwrap_or_default()),
    ("median_us", |r| us(median(&r.samples_ns))),
    ("min_us", |r| us(r.samples_ns.iter().copied().min_by(f64::total_cmp))),
    ("samples_ns", |r| r.samples_ns.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")),
    ("floor_us", |r| number(r.floor_us)),
    ("launches", |r| number(r.launches)),
    ("score", |r| number(r.score)),
    ("regs", |r| number(r.res.map(|x| x.regs))),
    ("spill", |r| number(r.res.map(|x| x.spill))),
    ("smem", |r| number(r.res.map(|x| x.smem))),
    ("err_l2", |r| number(r.err.and_then(|e| e.l2))),
    ("err_max", |r| number(r.err.and_then(|e| e.max))),
    ("sm_mhz", |r| state(r, |s| s.sm_mhz.to_string())),
    ("mem_mhz", |r| state(r, |s| s.mem_mhz.to_string())),
    ("temperature_c", |r| state(r, |s| s.temperature_c.to_string())),
    ("throttle", |r| state(r, |s| s.throttle.join(" "))),
    ("processes", |r| state(r, |s| s.processes.to_string())),
    ("repeats", |r| state(r, |s| s.repeats.to_string())),
    ("variants", |r| variants(r)),
    ("warnings", |r| r.warnings.iter().map(Warning::name).collect::<Vec<_>>().join("; ")),
    ("steps", |r| r.trace.len().to_string()),
    ("source_hash", |r| r.source_hash.clone().unwrap_or_default()),
    ("cubin_hash", |r| r.cubin_hash.clone().unwrap_or_default()),
    ("seed", |r| r.seed.to_string()),
    ("unix_s", |r| r.unix_s.to_string()),
    ("schema", |r| r.schema.to_string()),
    ("crc32c", |r| r.crc32c.clone()),
    ("samples", |r| r.samples_ns.len().to_string()),
];

/// The records as CSV with a header line, in the order given. Knobs that a record lacks are empty.
///
/// # Errors
/// A sentence, when the writer fails.
pub fn csv(records: &[&Record]) -> Result<String, String> {
    let cannot = |e: csv::Error| format!("cannot write the table: {e}");
    let knobs: BTreeSet<&String> = records.iter().flat_map(|r| r.knobs.keys()).collect();
    let mut out = csv::Writer::from_writer(vec![]);
    let header = COLUMNS.iter().map(|(name, _)| (*name).to_string());
    out.write_record(header.chain(knobs.iter().map(|k| format!("knob.{k}")))).map_err(cannot)?;
    for r in records {
        let fixed = COLUMNS.iter().map(|(_, value)| value(r));
        out.write_record(fixed.chain(knobs.iter().map(|k| number(r.knobs.get(*k))))).map_err(cannot)?;
    }
    let bytes = out.into_inner().map_err(|e| format!("cannot write the table: {e}"))?;
    String::from_utf8(bytes).map_err(|e| format!("cannot write the table: {e}"))
}

fn number(x: Option<impl ToString>) -> String {
    x.map(|x| x.to_string()).unwrap_or_default()
}

/// Nanoseconds as microseconds.
fn us(ns: Option<f64>) -> String {
    number(ns.and_then(|ns| nine_digits(ns / 1e3)))
}

fn state(r: &Record, field: impl Fn(&DeviceState) -> String) -> String {
    r.state.as_ref().map(field).unwrap_or_default()
}

fn variants(r: &Record) -> String {
    r.variants.iter().map(|v| format!("{}:{}={}", v.call, v.op, v.variant)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Outcome;
    use crate::log::line::tests::record;
    use std::collections::BTreeMap;

    fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        reader.deserialize().map(|row| row.unwrap()).collect()
    }

    #[test]
    fn a_row_for_each_record_and_a_column_for_each_knob() {
        let other = Record {
            knobs: [("unroll".to_string(), 4.into())].into(),
            outcome: Outcome::Crashed,
            reason: Some("died,\n\"really\"".into()),
            ..record(0, &[])
        };
        let state =
            Some(DeviceState { sm_mhz: 1980, throttle: vec!["a".into(), "b".into()], ..DeviceState::default() });
        let warnings =
            ["C7508", ""].map(|code| Warning { code: code.into(), text: "it, too".into(), ..Warning::default() });
        let timed = Record { state, warnings: warnings.into(), ..record(64, &[3000.0, 1500.0, 2000.421]) };
        let rows = rows(&csv(&[&timed, &other]).unwrap());
        assert_eq!(rows.len(), 2);
        let want = [
            ("workload", "mean"),
            ("bind", "n=512"),
            ("median_us", "2.000421"),
            ("min_us", "1.5"),
            ("samples_ns", "3000 1500 2000.421"),
            ("throttle", "a b"),
            ("sm_mhz", "1980"),
            ("outcome", "ok"),
            ("warnings", "C7508; it, too"),
            ("knob.threads", "64"),
            ("knob.unroll", ""),
            ("err_l2", "0.0000001"),
        ];
        for (column, value) in want {
            assert_eq!(rows[0][column], value, "{column}");
        }
        assert_eq!((rows[1]["reason"].as_str(), rows[1]["median_us"].as_str()), ("died,\n\"really\"", ""));
        assert_eq!((rows[1]["knob.threads"].as_str(), rows[1]["knob.unroll"].as_str()), ("", "4"));
    }
}
