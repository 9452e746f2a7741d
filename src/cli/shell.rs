//! `daylight completions` and `daylight man`: what shells complete and what `man` shows, from the arguments themselves.

use super::args::{self, Cli};
use super::output;
use crate::apply;
use crate::job::{Exit, Failure};
use clap::CommandFactory;
use std::collections::BTreeMap;
use std::io;

/// Writes the script of a shell to standard output.
pub fn completions(a: &args::Completions) -> Result<Exit, Failure> {
    let mut script = vec![];
    clap_complete::generate(a.shell, &mut Cli::command(), "daylight", &mut script);
    output::bytes(&script);
    Ok(Exit::Done)
}

/// Writes a page for the command and each of its subcommands: `daylight.1`, `daylight-tune.1`, `daylight-log-show.1`.
pub fn man(a: &args::Man) -> Result<Exit, Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = BTreeMap::new();
    page(&command, &mut pages).map_err(|e| Failure::usage(format!("cannot write a manual page: {e}")))?;
    apply::write(&pages, &a.out).map_err(Failure::usage)?;
    output::note(&format!("{} pages in {}", pages.len(), a.out.display()));
    Ok(Exit::Done)
}

fn page(command: &clap::Command, pages: &mut BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    let mut text = vec![];
    let page = clap_mangen::Man::new(command.clone());
    page.render(&mut text)?;
    pages.insert(page.get_filename(), text);
    command.get_subcommands().filter(|c| !c.is_hide_set()).try_for_each(|c| self::page(c, pages))
}
