//! The arguments of the command line.

use std::time::Duration;

use clap::{ArgGroup, Parser, Subcommand, ValueEnum};
use tourbillon_durable::{Dialect, Filter};

/// The environment variable that names the store.
pub(crate) const STORE: &str = "TOURBILLON_STORE";

/// Looks at durable timeouts, and cancels some, beside the processes that run them.
///
/// It has a connection of its own, runs nothing, and owns no timeout. Times are in UTC.
///
/// It ends with 0 if it has done it, or would; a list may be empty. It ends with 1 if nothing was
/// there for `get`, `cancel`, `dead revive` or `dead delete`, or nothing that they may change. It
/// ends with 2 if it was called in a wrong way, or the store can't be opened or has refused.
#[derive(Debug, Parser)]
#[command(name = "tourbillon-durable", version)]
pub(crate) struct Args {
    /// The path of an SQLite file, or postgres://user:password@host:port/database. By default what
    /// the environment variable TOURBILLON_STORE says: others on this machine may see a password
    /// that stands here.
    #[arg(long, global = true, value_name = "LOCATION")]
    pub(crate) store: Option<String>,
    /// Prints an object of JSON a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists timeouts in the order of their keys.
    List {
        #[command(flatten)]
        which: Which,
        /// Those with the first deadlines.
        #[arg(long, conflicts_with_all = ["after", "all"])]
        oldest: bool,
        #[command(flatten)]
        page: Page,
    },
    /// Counts timeouts.
    Count {
        #[command(flatten)]
        which: Which,
    },
    /// Shows for each handler what is pending, overdue and running, and how many live processes
    /// have it.
    Handlers {
        #[command(flatten)]
        which: Which,
    },
    /// Shows a timeout, with its payload.
    Get {
        /// The key.
        key: String,
    },
    /// Cancels timeouts, but for those that run.
    #[command(group = ArgGroup::new("what")
        .required(true)
        .multiple(true)
        .args(["key", "prefix", "handler", "without_handler"]))]
    Cancel {
        /// The key.
        #[arg(conflicts_with_all = ["prefix", "handler", "overdue", "running", "without_handler"])]
        key: Option<String>,
        #[command(flatten)]
        which: Which,
        /// Only says how many would be cancelled.
        #[arg(long)]
        dry_run: bool,
    },
    /// Lists dead letters, and schedules or deletes them.
    Dead {
        #[command(subcommand)]
        command: Dead,
    },
    /// Lists the live processes, and those that have left timeouts behind. One that has died counts
    /// as live until its lease ends, or, with SQLite, until the next process opens the file.
    Owners,
    /// Prints the statements that make the tables, for a migration tool of one's own. Each number
    /// is one transaction. No store is opened.
    Migrations {
        /// For which store. By default that of --store.
        #[arg(long)]
        dialect: Option<Language>,
        /// Only those with a greater number.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: i64,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Dead {
    /// Lists dead letters in the order of their keys.
    List {
        #[command(flatten)]
        which: DeadWhich,
        /// With --after, the list begins behind this generation of that key.
        #[arg(long, value_name = "NUMBER", requires = "after")]
        after_generation: Option<i64>,
        #[command(flatten)]
        page: Page,
    },
    /// Schedules dead letters once more: of each key the last one, unless the key is scheduled.
    #[command(group = ArgGroup::new("what").required(true).multiple(true).args(["key", "prefix", "handler"]))]
    Revive {
        #[command(flatten)]
        which: DeadWhich,
        /// After this time: 90, 60s, 5m, 2h or 1d.
        #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
        delay: Duration,
        /// Only says how many match.
        #[arg(long)]
        dry_run: bool,
    },
    /// Deletes dead letters.
    #[command(group = ArgGroup::new("what").required(true).multiple(true).args(["key", "prefix", "handler"]))]
    Delete {
        #[command(flatten)]
        which: DeadWhich,
        /// Only says how many would be deleted.
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which timeouts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Which {
    /// Only keys that begin with this text.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    prefix: Option<String>,
    /// Only those of this handler.
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
    /// Only what came up, this time ago or longer, and does not run: 90, 60s, 5m, 2h or 1d.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "0", value_parser = time)]
    overdue: Option<Duration>,
    /// Only what runs.
    #[arg(long, conflicts_with = "overdue")]
    running: bool,
    /// Only those whose handler no live process has.
    #[arg(long)]
    without_handler: bool,
}

impl Which {
    pub(crate) fn filter(&self) -> Filter {
        let mut filter = common(self.prefix.as_deref(), self.handler.as_deref(), self.without_handler);
        if let Some(by) = self.overdue {
            filter = filter.overdue(by);
        }
        if self.running {
            filter = filter.running(true);
        }
        filter
    }
}

/// Which dead letters.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeadWhich {
    /// The key.
    #[arg(conflicts_with_all = ["prefix", "handler", "without_handler"])]
    key: Option<String>,
    /// Only keys that begin with this text.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    prefix: Option<String>,
    /// Only those of this handler.
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
    /// Only those whose handler no live process has.
    #[arg(long)]
    without_handler: bool,
}

impl DeadWhich {
    pub(crate) fn filter(&self) -> Filter {
        let filter = common(self.prefix.as_deref(), self.handler.as_deref(), self.without_handler);
        match &self.key {
            Some(key) => filter.key(key),
            None => filter,
        }
    }
}

fn common(prefix: Option<&str>, handler: Option<&str>, without_handler: bool) -> Filter {
    let mut filter = Filter::new();
    if let Some(prefix) = prefix {
        filter = filter.prefix(prefix);
    }
    if let Some(handler) = handler {
        filter = filter.handler(handler);
    }
    if without_handler {
        filter = filter.without_handler();
    }
    filter
}

/// Which part of a list.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Page {
    /// So many at most.
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Behind this key: the last one of the page before.
    #[arg(long, value_name = "KEY")]
    pub(crate) after: Option<String>,
    /// All pages. They are read one after the other.
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Language {
    Sqlite,
    Postgres,
}

impl From<Language> for Dialect {
    fn from(language: Language) -> Self {
        match language {
            Language::Sqlite => Self::Sqlite,
            Language::Postgres => Self::Postgres,
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => f64::NAN,
    };
    let time = number.parse().ok().and_then(|number: f64| Duration::try_from_secs_f64(number * unit).ok());
    time.ok_or_else(|| "a number of seconds would be right, or a time such as 60s, 5m, 2h or 1d".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Args::command().debug_assert();
    }
}
