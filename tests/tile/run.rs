//! Runs programs in the simulator and by the reference semantics, and shows their text.

use super::case::{arguments, cuda, simulate};
use daylight::interp::{Mode, Scalars, run_device};
use daylight::ir::device::DeviceFunc;

/// Checks that the simulator gives what the reference semantics say, bit for bit.
pub fn agree(programs: Vec<(String, DeviceFunc, f64)>, target: &str) {
    for (name, f, _) in programs {
        let args = arguments(&f);
        let mut want = args.clone();
        run_device(&f, &mut want, &Scalars::new(), Mode::Exact).unwrap_or_else(|e| panic!("{name}: {e}"));
        let got = simulate(&f, target, &args);
        for (i, (w, g)) in want.iter().zip(&got).enumerate() {
            assert_eq!(w.to_f64(), g.to_f64(), "{name}: parameter {i}\n{}", cuda(&f, target));
        }
    }
}

/// Compares the CUDA text of some programs with golden files.
pub fn golden(family: &str, programs: Vec<(String, DeviceFunc, f64)>, shown: &[&str]) {
    for (name, f, _) in programs.iter().filter(|p| shown.contains(&p.0.as_str())) {
        crate::common::golden(&format!("golden/tile/{family}/{name}.cu"), &cuda(f, "sim:sm_90a"));
    }
}
