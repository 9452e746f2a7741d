//! What may be typed after `daylight new`: it comes from the table of operations.

use crate::operation::{Need, OPERATIONS, Operation, Opt};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct New {
    #[command(subcommand)]
    pub wanted: Wanted,
}

/// An operation and what was said of it.
#[derive(Debug)]
pub struct Wanted {
    pub operation: &'static Operation,
    pub name: String,
    pub options: Vec<(&'static str, String)>,
    pub out: Option<PathBuf>,
}

impl FromArgMatches for Wanted {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Wanted, Error> {
        let chosen = matches.subcommand();
        let found = chosen.and_then(|(name, given)| Some((OPERATIONS.iter().find(|o| o.name == name)?, given)));
        let (operation, given) = found.ok_or_else(|| Error::new(ErrorKind::MissingSubcommand))?;
        let own = given.get_one::<String>("name").cloned();
        Ok(Wanted {
            operation,
            name: own.unwrap_or_else(|| operation.name.to_string()),
            options: operation.options.iter().filter_map(|o| Some((o.name, value(o, given)?))).collect(),
            out: given.get_one::<PathBuf>("out").cloned(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Wanted::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The value of an option that was given; the empty one of a flag.
fn value(option: &Opt, given: &ArgMatches) -> Option<String> {
    match option.need {
        Need::Flag => given.get_flag(option.name).then(String::new),
        Need::Required | Need::Optional | Need::Default(_) => given.get_one::<String>(option.name).cloned(),
    }
}

impl Subcommand for Wanted {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(OPERATIONS.map(command_of)).subcommand_required(true).arg_required_else_help(true)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Wanted::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        OPERATIONS.iter().any(|o| o.name == name)
    }
}

fn command_of(operation: &'static Operation) -> Command {
    Command::new(operation.name)
        .about(operation.about)
        .override_usage(usage(operation))
        .long_about(format!("{}\n\n{}", operation.about, operation.detail))
        .after_help(format!("Example:\n  daylight new {}", wrapped(operation.example)))
        .args(operation.options.iter().map(arg))
        .arg(Arg::new("name").long("name").value_name("NAME").help(format!("Its name [default: {}]", operation.name)))
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("File to write it to [default: standard output]"),
        )
}

/// What has to be given, and that there is more.
fn usage(operation: &Operation) -> String {
    let required = operation.options.iter().filter(|o| o.need == Need::Required);
    let words = required.fold(operation.name.to_string(), |text, o| format!("{text} --{} <{}>", o.name, o.value));
    format!("daylight new {}", wrapped(&format!("{words} [OPTIONS]")))
}

/// An example in lines of 80 columns, broken before an option.
fn wrapped(words: &str) -> String {
    let mut lines = vec![String::new()];
    for part in words.split(" --").enumerate().map(|(k, p)| if k > 0 { format!(" --{p}") } else { p.to_string() }) {
        let line = lines.last_mut().filter(|l| l.len() + part.len() < 60);
        match line {
            Some(line) => line.push_str(&part),
            None => lines.push(format!("   {part}")),
        }
    }
    lines.join(" \\\n")
}

fn arg(option: &'static Opt) -> Arg {
    let arg = Arg::new(option.name).long(option.name).help(option.help);
    if option.need == Need::Flag {
        return arg.action(ArgAction::SetTrue);
    }
    let arg = arg.value_name(option.value).allow_hyphen_values(true);
    match option.need {
        Need::Required => arg.required(true),
        Need::Default("") | Need::Optional | Need::Flag => arg,
        Need::Default(value) => arg.default_value(value),
    }
}
