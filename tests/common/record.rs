//! Log records for tests.

use daylight::log::{
    DeviceState, Env, ErrorNorms, Outcome, Policy, Record, Resources, SCHEMA, Variant, Warning, Workload,
};

/// A good record of candidate `x` with these samples in nanoseconds.
pub fn record(x: i64, samples_ns: &[f64]) -> Record {
    Record {
        schema: SCHEMA,
        crc32c: String::new(),
        workload: Workload { key: "0123456789abcdef0123456789abcdef".into(), name: "mean".into() },
        bind: [("n".to_string(), 512)].into(),
        target: "cuda:sm_90a".into(),
        env: Env {
            gpu: "NVIDIA H200".into(),
            cc: "9.0".into(),
            sms: 132,
            driver: "13.0".into(),
            nvrtc: "nvrtc 13.0".into(),
            daylight: "0.1.0".into(),
        },
        policy: Policy { id: "graph-rotate-v1".into(), flags: vec![] },
        rule: "reduction.inner".into(),
        rule_version: 1,
        knobs: [("threads".to_string(), x.into())].into(),
        variants: vec![],
        trace: vec!["split(i1, [None, 4])".into()],
        source_hash: Some(format!("{x:032x}")),
        cubin_hash: Some(format!("{:032x}", x + 1)),
        res: Some(Resources { regs: 32, spill: 0, smem: 0 }),
        samples_ns: samples_ns.to_vec(),
        err: Some(ErrorNorms { l2: Some(1e-7), max: Some(1e-6) }),
        outcome: Outcome::Ok,
        reason: None,
        seed: 0,
        unix_s: 1_700_000_000,
        round: 0,
        default: false,
        floor_us: Some(10.0),
        work: None,
        state: None,
        launches: None,
        score: None,
        warnings: vec![],
        run: String::new(),
    }
}

/// A record of candidate `x` that failed for this reason.
pub fn failure(x: i64, outcome: Outcome, reason: &str) -> Record {
    Record { outcome, reason: Some(reason.into()), cubin_hash: None, res: None, err: None, ..record(x, &[]) }
}

/// A record that was ranked without a device.
pub fn predicted(x: i64, score: f64) -> Record {
    Record { outcome: Outcome::Predicted, score: Some(score), err: None, ..record(x, &[]) }
}

/// A warning of ptxas as the log has it.
pub fn warning() -> Warning {
    let text = "Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.";
    Warning { code: "C7508".into(), text: text.into(), kernel: Some("k".into()), count: 2 }
}

/// A record with every field in use.
pub fn full() -> Record {
    Record {
        bind: [("m".to_string(), 8), ("n".to_string(), 512)].into(),
        policy: Policy { id: "graph-rotate-v1".into(), flags: vec!["ftz".into()] },
        knobs: [("threads".to_string(), 256.into()), ("unroll".to_string(), 4.into())].into(),
        variants: vec![Variant { call: 0, op: "copy".into(), variant: "vector".into() }],
        trace: vec!["split(i1, [None, 4])".into(), "annotate(i1, \"cache_hint\", \"plain\")".into()],
        res: Some(Resources { regs: 40, spill: 8, smem: 1024 }),
        seed: 7,
        round: 2,
        default: true,
        state: Some(DeviceState {
            sm_mhz: 1980,
            mem_mhz: 3201,
            temperature_c: 41,
            throttle: vec!["sw_power_cap".into()],
            processes: 1,
            repeats: 2,
        }),
        warnings: vec![warning()],
        run: "9f86d081884c".into(),
        ..record(256, &[18_400.25, 18_399.5, 1e6 / 3.0])
    }
}

/// A line with the checksum that it would have to have.
pub fn repaired(line: &str) -> String {
    const FIELD: &str = "\"crc32c\":\"";
    let Some(at) = line.find(FIELD).map(|at| at + FIELD.len()).filter(|at| line.is_char_boundary(at + 8)) else {
        return line.to_string();
    };
    let (end, mut out) = (line.trim_end_matches(['\n', '\r']).len(), line.to_string());
    if at + 8 > end {
        return out;
    }
    out.replace_range(at..at + 8, "00000000");
    let sum = format!("{:08x}", crc32c::crc32c(&out.as_bytes()[..end]));
    out.replace_range(at..at + 8, &sum);
    out
}
