//! What every command needs, read from the machine once.

use super::args::Common;
use crate::job::{Device, Failure};
use crate::machine::Machine;
use crate::rules::Spaces;
use crate::runner::Limits;
use crate::target::Target;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The machine and the options that all commands share.
pub struct Context {
    /// The machine.
    pub machine: Machine,
    /// This program, which serves as worker.
    pub program: PathBuf,
    /// Folder of the knob tables that were named.
    pub schedules: Option<PathBuf>,
    /// Knob tables.
    pub spaces: Spaces,
    /// Values of extents.
    pub bind: BTreeMap<String, i64>,
    /// One JSON object per function on standard output.
    pub json: bool,
    /// Set by Ctrl-C.
    pub stop: &'static AtomicBool,
}

impl Context {
    /// Reads the machine and checks the shared options.
    ///
    /// # Errors
    /// A bad `--bind` or `--schedules`.
    pub fn new(common: &Common, stop: &'static AtomicBool) -> Result<Context, Failure> {
        let spaces = match &common.schedules {
            Some(folder) => Spaces::with_folder(folder).map_err(Failure::usage)?,
            None => Spaces::built_in(),
        };
        let program = std::env::current_exe().map_err(|e| Failure::usage(format!("cannot find this program: {e}")))?;
        Ok(Context {
            machine: Machine::here(common.cache.clone()),
            program,
            schedules: common.schedules.clone(),
            spaces,
            bind: bindings(&common.bind)?,
            json: common.json,
            stop,
        })
    }

    /// The target of that name.
    ///
    /// # Errors
    /// An unknown name, with the nearest.
    pub fn target(&self, name: &str) -> Result<Target, Failure> {
        Target::parse(name, &self.machine.host).map_err(Failure::usage)
    }

    /// The device of that name, driven by workers of this program.
    ///
    /// # Errors
    /// An unknown name; a device that is not there.
    pub fn device(&self, name: &str) -> Result<Device, Failure> {
        let limits = Limits::default().for_machine(self.machine.memory_bytes, self.machine.host.cores as usize);
        Device::open(&self.machine, Some(&self.program), name, &limits)
    }
}

/// The values of `--bind n=512,m=8`.
fn bindings(lists: &[String]) -> Result<BTreeMap<String, i64>, Failure> {
    let mut out = BTreeMap::new();
    for pair in lists.iter().flat_map(|l| l.split(',')).map(str::trim).filter(|p| !p.is_empty()) {
        let bad = |why: &str| Failure::usage(format!("--bind {pair}: {why}; write it as --bind n=512,m=8"));
        let (name, value) = pair.split_once('=').ok_or_else(|| bad("expected name=value"))?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() {
            return Err(bad("the name is missing"));
        }
        let number: i64 = value.parse().map_err(|_| bad("the value is not an integer"))?;
        if number < 1 {
            return Err(bad("an extent is at least 1"));
        }
        if out.insert(name.to_string(), number).is_some_and(|old| old != number) {
            return Err(bad("the name stands twice with different values"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(lists: &[&str]) -> Result<BTreeMap<String, i64>, String> {
        bindings(&lists.iter().map(|s| s.to_string()).collect::<Vec<_>>()).map_err(|f| f.message)
    }

    #[test]
    fn bindings_are_read() {
        assert_eq!(
            bind(&["n=512, m=8", "k=1"]).unwrap(),
            BTreeMap::from([("k".into(), 1), ("m".into(), 8), ("n".into(), 512)])
        );
        assert_eq!(bind(&[]).unwrap(), BTreeMap::new());
    }

    #[test]
    fn bad_bindings_have_sentences() {
        for (text, why) in [
            ("n", "expected name=value"),
            ("=5", "the name is missing"),
            ("n=five", "the value is not an integer"),
            ("n=0", "an extent is at least 1"),
            ("n=1,n=2", "the name stands twice with different values"),
        ] {
            let e = bind(&[text]).unwrap_err();
            assert!(e.contains(why) && e.ends_with("write it as --bind n=512,m=8"), "{e}");
        }
    }
}
