//! What is built untuned of logged functions, over the best that was measured of each.

use super::{in_all, of_each, taken};
use daylight::log::Record;
use daylight::tune::Point;
use daylight::tune::replay::Replay;
use std::path::Path;

/// The untuned choice of a function.
struct Choice {
    name: String,
    point: String,
    /// Best time over its own; `None` where nobody measured it.
    share: Option<f64>,
}

/// Of each function of `LOG:FOLDER`s, and of all together.
pub fn print(logs: &[&str]) {
    let parts = logs.iter().map(|l| l.split_once(':').expect("LOG:FOLDER"));
    let choices: Vec<Choice> = parts.flat_map(|(log, folder)| of_each(log, folder, choice)).collect();
    let shares: Vec<f64> = choices.iter().filter_map(|c| c.share).collect();
    println!("untuned: {}, {} not measured", in_all(&shares), choices.len() - shares.len());
    for c in choices {
        println!("{} {:.3} {}", c.name, c.share.unwrap_or(f64::NAN), c.point);
    }
}

fn choice(path: &Path, records: &[&Record]) -> Option<Choice> {
    let (_, arms) = taken(path, records)?;
    let replay = Replay::new(&arms, records)?;
    replay.settle(&arms);
    let first = &arms.list[0];
    let point = Point { arm: 0, knobs: first.default()? };
    Some(Choice {
        name: path.file_stem()?.to_string_lossy().into_owned(),
        point: format!("{} {}", first.space.form, point.knobs),
        share: replay.ns(&point).map(|ns| replay.best_ns() / ns),
    })
}
