//! A step of a model: the tensor functions that a relax function of a TVM module calls, at which sizes and how often.

use crate::assemble::{BadFile, Bindings, Exit, Failure, Input, Reading};
use crate::ir::relax::{Callee, RelaxCall, RelaxFunc, Symbols, tensors, value};
use crate::ir::{Expr, Name, Param, PrimFunc, read_relax};
use crate::target::nearest;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// The calls of one function at one size.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Called {
    /// The function, bound as far as the module or `--bind` says.
    pub input: Input,
    /// How often a step calls it.
    pub calls: u64,
    /// Line and column of the first call.
    pub at: (usize, usize),
}

/// What one run of a relax function calls.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Step {
    /// The relax function.
    pub entry: String,
    /// Tensor functions, in the order of their first calls.
    pub called: Vec<Called>,
    /// Calls of operators and packed functions, which are no tensor functions, by name.
    pub others: BTreeMap<String, u64>,
    /// Tensor functions of the module that the step does not call.
    pub idle: Vec<String>,
}

impl Step {
    /// Reads a module and counts the calls of a step: of the relax function `entry`, or else of the only one that is not private, or of
    /// `main`. `reading` has values for its symbols, and whether the functions are strict.
    ///
    /// # Errors
    /// What [`Reading::load`] and the reader say of the text; no relax function, or several to choose from; a symbol that there is not;
    /// a call of what is not in the module, or that has no end.
    pub fn read(path: &Path, entry: Option<&str>, reading: &Reading) -> Result<Step, Failure> {
        let shown = path.display().to_string();
        let (bind, strict) = (&reading.bind, reading.strict);
        let inputs = Reading { strict, ..Reading::default() }.load(&[path.to_path_buf()])?;
        let inputs = inputs.into_iter().collect::<Result<Vec<Input>, BadFile>>().map_err(|bad| bad.failure)?;
        let text = std::fs::read_to_string(path).map_err(|e| Failure::usage(format!("cannot read {shown}: {e}")))?;
        let functions = read_relax(&text, &shown).map_err(|e| Failure::new(Exit::Input, e.to_string()))?;
        let module = Module { shown: &shown, inputs: &inputs, functions: &functions };
        let entry = module.entry(entry)?;
        check_bind(bind, entry)?;
        let counts = Counter { module: &module, known: BTreeMap::new(), within: vec![] }.of(entry, bind)?;
        Ok(module.step(entry, &counts))
    }
}

/// What was read of a file.
struct Module<'m> {
    shown: &'m str,
    inputs: &'m [Input],
    functions: &'m [RelaxFunc],
}

/// Deepest calls of relax functions by each other; counting takes stack for each.
const DEEPEST: usize = 100;

/// A tensor function at a size.
type Key = (String, Bindings);

/// Calls of tensor functions, with the place of the first, and of others.
#[derive(Default)]
struct Counts {
    tensor: BTreeMap<Key, (u64, (usize, usize))>,
    others: BTreeMap<String, u64>,
}

impl Module<'_> {
    fn entry(&self, wanted: Option<&str>) -> Result<&RelaxFunc, Failure> {
        let (all, shown) = (self.functions, self.shown);
        if let Some(name) = wanted {
            let names = all.iter().map(|f| f.name.as_str());
            let near = nearest(name, names).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let found = all.iter().find(|f| f.name == name);
            return found
                .ok_or_else(|| Failure::usage(format!("--entry {name}: {shown} has no such relax function{near}")));
        }
        // What TVM makes of the weights once (`LiftTransformParams`) is no step.
        let prepares = |f: &RelaxFunc| {
            let whose = f.name.strip_suffix("_transform_params");
            whose.is_some_and(|name| all.iter().any(|f| f.name == name))
        };
        let public: Vec<&RelaxFunc> = all.iter().filter(|f| !f.private && !prepares(f)).collect();
        match (public.as_slice(), public.iter().find(|f| f.name == "main")) {
            ([one], _) | (_, Some(one)) => Ok(one),
            ([], _) => Err(Failure::new(
                Exit::Input,
                format!(
                    "{shown}:1:1: no relax function here says what a step calls; print the whole module with `mod.script()`, or tune \
                     the functions with `daylight tune`"
                ),
            )),
            (several, _) => {
                let names: Vec<&str> = several.iter().map(|f| f.name.as_str()).collect();
                let names = names.join(", ");
                Err(Failure::usage(format!("{shown} has several relax functions: {names}; name one with --entry")))
            }
        }
    }

    fn step(&self, entry: &RelaxFunc, counts: &Counts) -> Step {
        let mut called = vec![];
        for ((name, bind), (calls, at)) in &counts.tensor {
            let input = self.inputs.iter().find(|i| i.original.name == *name);
            called.extend(input.map(|i| Called { input: i.at(bind), calls: *calls, at: *at }));
        }
        called.sort_by_key(|c| c.at);
        let is_idle = |i: &&Input| counts.tensor.keys().all(|(name, _)| *name != i.original.name);
        let idle = self.inputs.iter().filter(is_idle).map(|i| i.original.name.clone()).collect();
        Step { entry: entry.name.clone(), called, others: counts.others.clone(), idle }
    }

    /// An error at a call.
    fn bad(&self, call: &RelaxCall, why: &str) -> Failure {
        Failure::new(Exit::Input, format!("{}:{}:{}: {why}", self.shown, call.line, call.column))
    }
}

/// Counts the calls of relax functions, of each at each size once.
struct Counter<'m> {
    module: &'m Module<'m>,
    known: BTreeMap<Key, Rc<Counts>>,
    /// Functions that are being counted, the entry first.
    within: Vec<&'m str>,
}

impl<'m> Counter<'m> {
    fn of(&mut self, f: &'m RelaxFunc, symbols: &Symbols) -> Result<Rc<Counts>, Failure> {
        let key = (f.name.clone(), symbols.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        self.within.push(&f.name);
        let mut counts = Counts::default();
        for call in &f.calls {
            self.call(call, symbols, &mut counts)?;
        }
        self.within.pop();
        let counts = Rc::new(counts);
        self.known.insert(key, counts.clone());
        Ok(counts)
    }

    fn call(&mut self, call: &RelaxCall, symbols: &Symbols, counts: &mut Counts) -> Result<(), Failure> {
        let at = (call.line, call.column);
        match &call.callee {
            Callee::Other(name) => add(counts.others.entry(name.clone()).or_default(), 1),
            Callee::Tensor(name) => {
                let Some(input) = self.module.inputs.iter().find(|i| i.original.name == *name) else {
                    return Err(self.module.bad(call, &format!("`{name}` is no tensor function of this module")));
                };
                let bind = sizes(&input.original, call, symbols);
                add(&mut counts.tensor.entry((name.clone(), bind)).or_insert((0, at)).0, 1);
            }
            Callee::Relax(name) => {
                let Some(f) = self.module.functions.iter().find(|f| f.name == *name) else {
                    return Err(self.module.bad(call, &format!("`{name}` is no relax function of this module")));
                };
                if self.within.contains(&name.as_str()) {
                    return Err(self
                        .module
                        .bad(call, &format!("`{name}` calls itself; calls of such a step cannot be counted")));
                }
                if self.within.len() > DEEPEST {
                    let why = format!(
                        "relax functions call each other more than {DEEPEST} deep; inline them before the module is printed"
                    );
                    return Err(self.module.bad(call, &why));
                }
                let inner = self.of(f, &f.symbols_of(&call.args, symbols))?;
                for (key, (calls, first)) in &inner.tensor {
                    add(&mut counts.tensor.entry(key.clone()).or_insert((0, *first)).0, *calls);
                }
                inner.others.iter().for_each(|(name, n)| add(counts.others.entry(name.clone()).or_default(), *n));
            }
        }
        Ok(())
    }
}

fn add(to: &mut u64, calls: u64) {
    *to = to.saturating_add(calls);
}

/// Values of a function's extents in a call, by the user's names, as far as they are known.
fn sizes(f: &PrimFunc, call: &RelaxCall, symbols: &Symbols) -> Bindings {
    let mut out = Bindings::new();
    let mut note = |name: &Name, size: &Expr| {
        if let Some(n) = value(size, symbols).filter(|n| *n > 0) {
            out.entry(f.display_name(name).to_string()).or_insert(n);
        }
    };
    for (buffer, given) in f.buffer_params().zip(tensors(&call.args)) {
        for (dim, size) in buffer.shape.iter().zip(given) {
            let extent = dim.as_var().filter(|name| f.extents.iter().any(|e| e.name == **name));
            extent.into_iter().for_each(|name| note(name, size));
        }
    }
    let scalars = f.params.iter().filter_map(|p| match p {
        Param::Scalar { name, .. } => Some(name),
        Param::Buffer(_) => None,
    });
    scalars.zip(&call.scalars).for_each(|(name, size)| note(name, size));
    out
}

/// Refuses a name that is no symbol of the entry.
fn check_bind(bind: &Bindings, entry: &RelaxFunc) -> Result<(), Failure> {
    let known = entry.symbols();
    let Some(name) = bind.keys().find(|name| !known.contains(name)) else { return Ok(()) };
    let entry = &entry.name;
    Err(Failure::usage(match known.is_empty() {
        true => format!("--bind {name}: all sizes of `{entry}` are numbers"),
        false => format!("--bind {name}: `{entry}` has no such size; it has {}", known.join(", ")),
    }))
}
