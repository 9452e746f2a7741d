//! What every command needs, read from the machine once.

use super::args::Common;
use crate::assemble::{Bindings, Reading, Sizes};
use crate::job::{BadFile, Device, Exit, Failure, Input};
use crate::machine::Machine;
use crate::rules::Spaces;
use crate::runner::Limits;
use crate::target::Target;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Values of extents, and the functions that are wanted.
    pub reading: Reading,
    /// One JSON object per function on standard output.
    pub json: bool,
    /// Has Ctrl-C set a flag, and gives it.
    stop: fn() -> &'static AtomicBool,
}

impl Context {
    /// Reads the machine and checks the shared options.
    ///
    /// # Errors
    /// A bad `--bind` or `--schedules`.
    pub fn new(common: &Common, stop: fn() -> &'static AtomicBool) -> Result<Context, Failure> {
        let spaces = match &common.schedules {
            Some(folder) => Spaces::with_folder(folder).map_err(Failure::usage)?,
            None => Spaces::built_in(),
        };
        let (bind, sizes) = bindings(&common.bind)?;
        let program = std::env::current_exe().map_err(|e| Failure::usage(format!("cannot find this program: {e}")))?;
        Ok(Context {
            machine: Machine::here(common.cache.clone()),
            program,
            schedules: common.schedules.clone(),
            spaces,
            reading: Reading { bind, sizes, functions: common.function.clone(), strict: common.strict },
            json: common.json,
            stop,
        })
    }

    /// The flag that Ctrl-C sets from now on, instead of ending the process: for work that keeps what it has.
    pub fn stop(&self) -> &'static AtomicBool {
        (self.stop)()
    }

    /// The exit of work that may have been ended by Ctrl-C.
    pub fn ended(&self, exit: Exit) -> Exit {
        if self.stop().load(Ordering::Relaxed) { Exit::Interrupted } else { exit }
    }

    /// The functions of files, each at one size.
    ///
    /// # Errors
    /// A name that no function knows, or several sizes.
    pub fn load(&self, files: &[PathBuf]) -> Result<Vec<Result<Input, BadFile>>, Failure> {
        self.one_size()?;
        self.reading.load(files)
    }

    /// The values of extents, one each.
    ///
    /// # Errors
    /// An extent that was given several.
    pub fn one_size(&self) -> Result<&Bindings, Failure> {
        match self.reading.sizes.keys().next() {
            None => Ok(&self.reading.bind),
            Some(name) => {
                let text = format!("--bind {name}=...: several sizes are for tune and apply-best; give one");
                Err(Failure::usage(text))
            }
        }
    }

    /// The functions of files, at each size that was given.
    ///
    /// # Errors
    /// A name that no function knows.
    pub fn load_sizes(&self, files: &[PathBuf]) -> Result<Vec<Result<Input, BadFile>>, Failure> {
        let each = |input: Result<Input, BadFile>| match input {
            Ok(input) => input.at_sizes(&self.reading.sizes).into_iter().map(Ok).collect(),
            Err(bad) => vec![Err(bad)],
        };
        Ok(self.reading.load(files)?.into_iter().flat_map(each).collect())
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

/// The values of `--bind n=512,m=8`, and the sizes of `--bind n=1,8,64`.
fn bindings(lists: &[String]) -> Result<(Bindings, Sizes), Failure> {
    let mut all: Vec<(String, Vec<i64>)> = vec![];
    for list in lists {
        let mut is_first = true;
        for pair in list.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let bad = |why: &str| Failure::usage(format!("--bind {pair}: {why}; write it as --bind n=512,m=8"));
            let more = pair.split_once('=').is_none() && !is_first;
            let (name, value) = match (more, all.last()) {
                (true, Some((name, _))) => (name.clone(), pair),
                _ => pair
                    .split_once('=')
                    .map(|(n, v)| (n.trim().to_string(), v.trim()))
                    .ok_or_else(|| bad("expected name=value"))?,
            };
            if name.is_empty() {
                return Err(bad("the name is missing"));
            }
            let number: i64 = value.parse().map_err(|_| bad("the value is not an integer"))?;
            if number < 1 {
                return Err(bad("an extent is at least 1"));
            }
            match all.iter_mut().find(|(n, _)| *n == name) {
                Some((_, values)) if more => values.push(number),
                Some((_, values)) if *values == [number] => {}
                Some(_) => return Err(bad("the name stands twice with different values")),
                None => all.push((name, vec![number])),
            }
            is_first = false;
        }
    }
    let (bind, sizes): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, values)| values.len() == 1);
    Ok((bind.into_iter().map(|(name, values)| (name, values[0])).collect(), sizes.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn bind(lists: &[&str]) -> Result<BTreeMap<String, i64>, String> {
        let lists: Vec<String> = lists.iter().map(|s| s.to_string()).collect();
        bindings(&lists).map(|(bind, _)| bind).map_err(|f| f.message)
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
    fn several_values_of_an_extent_are_sizes() {
        let (bind, sizes) = bindings(&["m=8,n=1,8, 64,k=2".to_string()]).unwrap();
        assert_eq!(bind, BTreeMap::from([("m".into(), 8), ("k".into(), 2)]));
        assert_eq!(sizes, BTreeMap::from([("n".into(), vec![1, 8, 64])]));
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
