//! `daylight new`: writes a function for a common operation.

pub mod args;

use super::context::Context;
use super::output;
use crate::job::{Exit, Failure};
use args::{New, Wanted};
use serde_json::json;

/// Runs the command.
pub fn run(cx: &Context, a: &New) -> Result<Exit, Failure> {
    let Wanted { operation, name, options, out } = &a.wanted;
    let given: Vec<(&str, &str)> = options.iter().map(|(option, value)| (*option, value.as_str())).collect();
    let func = operation.function(name, &given).map_err(Failure::usage)?;
    let text = func.to_string();
    if let Some(path) = out {
        let cannot = |e| Failure::usage(format!("cannot write {}: {e}", path.display()));
        std::fs::write(path, &text).map_err(cannot)?;
    }
    match (cx.json, out) {
        (true, _) => {
            let object = json!({
                "schema": 1,
                "operation": operation.name,
                "name": name,
                "file": out.as_ref().map(|p| p.display().to_string()),
                "text": text,
            });
            output::line(&object.to_string());
        }
        (false, None) => output::text(&text),
        (false, Some(path)) => {
            let path = path.display();
            output::note(&format!("{name} in {path}; `daylight check {path}` says what takes it"));
        }
    }
    Ok(Exit::Done)
}
