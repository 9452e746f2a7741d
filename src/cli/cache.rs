//! `daylight cache`: what the cache folder holds, and how it is emptied.

use super::args;
use super::context::Context;
use super::output;
use crate::backend::{Stored, stored};
use crate::job::{Exit, Failure};
use serde_json::json;
use std::time::Duration;

const DAY: u64 = 24 * 60 * 60;

/// Runs the command.
pub fn run(cx: &Context, a: &args::Cache) -> Result<Exit, Failure> {
    let folder = cx.machine.places.artifacts();
    let all = stored(&folder).map_err(Failure::usage)?;
    let (count, bytes) = (all.len(), all.iter().map(|s| s.bytes).sum::<u64>());
    match &a.action {
        args::CacheAction::Show if cx.json => {
            let object = json!({ "schema": 1, "folder": folder, "artifacts": count, "bytes": bytes });
            output::line(&object.to_string());
        }
        args::CacheAction::Show => {
            output::line(&format!("{}: {count} compiled artifacts, {}", folder.display(), size(bytes)));
        }
        args::CacheAction::Clean { older_than } => {
            let least = Duration::from_secs(u64::from(*older_than) * DAY);
            let old: Vec<&Stored> = all.iter().filter(|s| s.age >= least).collect();
            let freed: u64 = old.iter().map(|s| s.bytes).sum();
            old.iter()
                .try_for_each(|s| s.remove())
                .map_err(|e| Failure::usage(format!("cannot empty the cache: {e}")))?;
            output::note(&format!("{} of {count} compiled artifacts removed, {}", old.len(), size(freed)));
        }
    }
    Ok(Exit::Done)
}

fn size(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{} KiB", bytes.div_ceil(1 << 10)) } else { format!("{} MiB", bytes >> 20) }
}
