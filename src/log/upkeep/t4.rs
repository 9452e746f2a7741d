//! A log in T4, the results format that Kernel Tuner and the tools around it exchange.
//!
//! Schema 1.0.0 (github.com/odgaard/TuningSchema): `schema_version` and `results`, one for each
//! measurement. Times are in milliseconds, as Kernel Tuner writes them. The log keeps no times of
//! compiling, searching and checking; the format has no way to say so and they are 0. Candidates that
//! were only ranked have no place in it.

use crate::log::line::nine_digits;
use crate::log::{Outcome, Record, Warning, median};
use serde_json::{Value, json};

/// Version of the format.
const VERSION: &str = "1.0.0";

/// The measured and failed records of one selection as T4.
pub fn t4(records: &[&Record]) -> Value {
    let results: Vec<Value> = records.iter().filter_map(|r| Some(result(r, invalidity(r.outcome)?))).collect();
    json!({ "schema_version": VERSION, "results": results })
}

/// The format's name of an outcome; `None` for what it has no name for.
fn invalidity(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Ok => Some("correct"),
        Outcome::Pruned => Some("constraints"),
        Outcome::CompileFailed => Some("compile"),
        Outcome::LaunchFailed | Outcome::Crashed => Some("runtime"),
        Outcome::WrongResult => Some("correctness"),
        Outcome::TimedOut => Some("timeout"),
        Outcome::Predicted => None,
    }
}

/// What Kernel Tuner writes in place of a time.
fn instead_of_time(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::CompileFailed => "CompilationFailedConfig",
        Outcome::Pruned => "InvalidConfig",
        Outcome::Ok
        | Outcome::LaunchFailed
        | Outcome::WrongResult
        | Outcome::TimedOut
        | Outcome::Crashed
        | Outcome::Predicted => "RuntimeFailedConfig",
    }
}

fn result(r: &Record, invalidity: &str) -> Value {
    let mut configuration = json!({ "rule": r.rule });
    for (knob, value) in &r.knobs {
        configuration[knob] = json!(value);
    }
    let runtimes: Vec<f64> = r.samples_ns.iter().filter_map(|ns| nine_digits(ns / 1e6)).collect();
    json!({
        "timestamp": timestamp(r.unix_s),
        "configuration": configuration,
        "times": {
            "compilation_time": 0,
            "runtimes": runtimes,
            "framework": 0,
            "search_algorithm": 0,
            "validation": 0,
        },
        "invalidity": invalidity,
        "correctness": i32::from(r.outcome == Outcome::Ok),
        "measurements": measurements(r),
        "objectives": ["time"],
    })
}

fn measurements(r: &Record) -> Vec<Value> {
    let one = |name: &str, value: Value, unit: &str| json!({ "name": name, "value": value, "unit": unit });
    let median = median(&r.samples_ns).and_then(|ns| nine_digits(ns / 1e6));
    let time = median.map_or(json!(instead_of_time(r.outcome)), |ms| json!(ms));
    let mut out = vec![one("time", time, "ms")];
    if let Some(res) = r.res {
        out.push(one("registers", json!(res.regs), ""));
        out.push(one("spilled", json!(res.spill), "bytes"));
        out.push(one("shared_memory", json!(res.smem), "bytes"));
    }
    if let Some(state) = &r.state {
        out.push(one("sm_clock", json!(state.sm_mhz), "MHz"));
        out.push(one("temperature", json!(state.temperature_c), "C"));
    }
    out.extend(r.reason.as_ref().map(|why| one("reason", json!(why), "")));
    if !r.warnings.is_empty() {
        let names: Vec<&str> = r.warnings.iter().map(Warning::name).collect();
        out.push(one("warnings", json!(names.join("; ")), ""));
    }
    out.push(one("round", json!(r.round), ""));
    out
}

/// `2023-11-14 22:13:20+00:00`, as Python writes a time in UTC.
fn timestamp(unix_s: u64) -> String {
    let (days, s) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}+00:00", s / 3600, s / 60 % 60, s % 60)
}

/// Year, month and day of a day after 1970-01-01, with years that begin in March so that the leap day
/// comes last.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468; // from 0000-03-01
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (400 * era + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::tests::record;

    /// What the format's JSON schema demands, and what Kernel Tuner always writes.
    fn valid(t4: &Value) {
        assert_eq!(t4["schema_version"], "1.0.0");
        for r in t4["results"].as_array().expect("results") {
            assert!(r["timestamp"].is_string() && r["configuration"].is_object());
            let times = r["times"].as_object().expect("times");
            assert!(times["runtimes"].as_array().expect("runtimes").iter().all(Value::is_number));
            for name in ["compilation_time", "framework", "search_algorithm", "validation"] {
                assert!(times[name].is_number(), "{name}");
            }
            let names = ["timeout", "compile", "runtime", "correctness", "constraints", "correct"];
            assert!(names.contains(&r["invalidity"].as_str().expect("invalidity")));
            assert!(r["correctness"].is_number());
            let measured = r["measurements"].as_array().expect("measurements");
            for m in measured {
                assert!(
                    m["name"].is_string()
                        && m["unit"].is_string()
                        && (m["value"].is_number() || m["value"].is_string())
                );
            }
            for objective in r["objectives"].as_array().expect("objectives") {
                assert!(measured.iter().any(|m| m["name"] == *objective), "{objective} is measured");
            }
        }
    }

    #[test]
    fn the_structure_is_that_of_the_format() {
        let failed = |o| Record { outcome: o, reason: Some("why".into()), ..record(1, &[]) };
        let mut records = vec![record(64, &[3e6, 1e6, 2e6])];
        records.extend(Outcome::ALL.into_iter().skip(1).map(failed));
        let out = t4(&records.iter().collect::<Vec<_>>());
        valid(&out);
        let results = out["results"].as_array().unwrap();
        assert_eq!(results.len(), 7, "all but the predicted one");
        let good = &results[0];
        assert_eq!(good["configuration"], json!({ "rule": "reduction.inner", "threads": 64 }));
        assert_eq!(good["times"]["runtimes"], json!([3.0, 1.0, 2.0]));
        assert_eq!(good["measurements"][0], json!({ "name": "time", "value": 2.0, "unit": "ms" }));
        assert_eq!((&good["invalidity"], &good["correctness"]), (&json!("correct"), &json!(1)));
        let named: Vec<&str> = results.iter().map(|r| r["invalidity"].as_str().unwrap()).collect();
        assert_eq!(named[1..], ["constraints", "compile", "runtime", "correctness", "timeout", "runtime"]);
        assert_eq!(results[2]["measurements"][0]["value"], "CompilationFailedConfig");
        assert!(results[1..].iter().all(|r| r["correctness"] == 0));
    }

    #[test]
    fn times_of_the_day_and_leap_years() {
        assert_eq!(timestamp(0), "1970-01-01 00:00:00+00:00");
        assert_eq!(timestamp(951_782_399), "2000-02-28 23:59:59+00:00");
        assert_eq!(timestamp(951_868_799), "2000-02-29 23:59:59+00:00");
        assert_eq!(timestamp(1_700_000_000), "2023-11-14 22:13:20+00:00");
        assert_eq!(timestamp(4_107_542_400), "2100-03-01 00:00:00+00:00");
    }
}
