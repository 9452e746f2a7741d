//! Several sizes of one function: lists of values for extents that its kernels leave open.

use super::{Bindings, Input, Sizes};

impl Input {
    /// Each combination of the values that lists have for the extents without one, smaller sizes first; none where
    /// no list names such an extent.
    pub fn sizes(&self, lists: &Sizes) -> Vec<Bindings> {
        let mut out: Vec<Bindings> = vec![];
        for e in &self.func.extents {
            let user = self.func.display_name(&e.name);
            let Some(values) = lists.get(user).or_else(|| lists.get(e.name.as_str())) else { continue };
            let before = if out.is_empty() { vec![Bindings::new()] } else { out };
            let with = |size: &Bindings, v: i64| {
                size.iter().map(|(k, v)| (k.clone(), *v)).chain([(user.to_string(), v)]).collect::<Bindings>()
            };
            out = before.iter().flat_map(|size| values.iter().map(|v| with(size, *v))).collect();
        }
        smaller_first(&mut out);
        out
    }

    /// The function with values for more of its extents.
    pub fn at(&self, size: &Bindings) -> Input {
        let mut bind = self.bind.clone();
        bind.extend(size.clone());
        Input { func: self.original.bind(&bind), bind, ..self.clone() }
    }

    /// The function at each size of the lists; as it is where no list names an extent of it.
    pub fn at_sizes(self, lists: &Sizes) -> Vec<Input> {
        let sizes = self.sizes(lists);
        if sizes.is_empty() { vec![self] } else { sizes.iter().map(|s| self.at(s)).collect() }
    }
}

/// A function's name with the values of its extents: `rms_norm n=16`.
pub fn label(name: &str, bind: &Bindings) -> String {
    bind.iter().fold(name.to_string(), |text, (extent, value)| format!("{text} {extent}={value}"))
}

/// Puts sizes in order, each once: of two the one with fewer elements comes first.
pub fn smaller_first(sizes: &mut Vec<Bindings>) {
    let elements = |s: &Bindings| s.values().fold(1i64, |n, v| n.saturating_mul(*v));
    sizes.sort_by(|a, b| elements(a).cmp(&elements(b)).then_with(|| a.cmp(b)));
    sizes.dedup();
}
