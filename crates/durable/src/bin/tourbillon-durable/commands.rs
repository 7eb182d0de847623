//! Carries out the commands.

use std::io::Write;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tourbillon_durable::{Dialect, Filter, Operator, migrations};

use crate::args::{Args, Command, Dead, Page, STORE};
use crate::show::{Out, Shown, payload, plain};

/// There was nothing to be done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Nothing(String);

const NO_TIMEOUT: &str = "no timeout matches";
const NO_LETTER: &str = "no dead letter matches";
/// How many rows of `--all` are read at once.
const PAGE: u32 = 5_000;

pub(crate) fn run(args: Args, out: &mut impl Write) -> Result<()> {
    let store = args.store.or_else(|| std::env::var(STORE).ok());
    let mut out = Out { json: args.json, out };
    if let Command::Migrations { dialect, after } = args.command {
        let dialect = dialect.map(Dialect::from).or_else(|| store.as_deref().map(dialect_of));
        let dialect = dialect.context("say which store they are for: by --dialect, or by --store")?;
        return print_migrations(&mut out, dialect, after);
    }
    let Some(store) = store else { bail!("say where the store is: by --store, or by {STORE}") };
    let operator = Operator::open(store)?;
    match args.command {
        Command::List { which, oldest: true, page } => out.table(operator.oldest(&which.filter().limit(page.limit))?),
        Command::List { which, oldest: false, page } => list(&mut out, &operator, which.filter(), &page),
        Command::Count { which } => {
            let count = operator.count(&which.filter())?;
            out.answer(&count.to_string(), &json!({ "count": count }))
        }
        Command::Handlers { which } => out.table(operator.handlers(&which.filter())?),
        Command::Get { key } => get(&mut out, &operator, &key),
        Command::Cancel { key, which, dry_run } => {
            let filter = key.map_or_else(|| which.filter(), |key| Filter::new().key(key));
            cancel(&mut out, &operator, &filter, dry_run)
        }
        Command::Dead { command } => dead(&mut out, &operator, command),
        Command::Owners => out.table(operator.processes()?),
        Command::Migrations { .. } => unreachable!("it needs no store"),
    }
}

fn list(out: &mut Out<'_, impl Write>, operator: &Operator, mut filter: Filter, page: &Page) -> Result<()> {
    if let Some(key) = &page.after {
        filter = filter.after(key);
    }
    pages(out, page, filter, |filter| Ok(operator.list(filter)?), |filter, row| filter.after(&row.key))
}

fn list_dead(out: &mut Out<'_, impl Write>, operator: &Operator, filter: Filter, page: &Page) -> Result<()> {
    let next = |filter: Filter, row: &tourbillon_durable::DeadLetterRow| filter.after_letter(&row.key, row.generation);
    pages(out, page, filter, |filter| Ok(operator.list_dead(filter)?), next)
}

/// Prints a page, and says if there may be more, or all of them.
fn pages<T: Shown>(
    out: &mut Out<'_, impl Write>,
    page: &Page,
    filter: Filter,
    read: impl Fn(&Filter) -> Result<Vec<T>>,
    next: impl Fn(Filter, &T) -> Filter,
) -> Result<()> {
    let limit = if page.all { PAGE } else { page.limit };
    let mut filter = filter.limit(limit);
    loop {
        let rows = read(&filter)?;
        let (is_last, last) = (rows.len() < limit as usize, rows.last());
        let name = last.map(Shown::name);
        if let Some(last) = last {
            filter = next(filter, last);
        }
        out.table(rows)?;
        match name {
            Some(name) if !is_last && !page.all => {
                eprintln!("There may be more: --after {}", plain(&name));
                return Ok(());
            }
            // A row of a wrong type is left out, so a short page need not be the last.
            Some(_) if page.all => {}
            _ => return Ok(()),
        }
    }
}

fn get(out: &mut Out<'_, impl Write>, operator: &Operator, key: &str) -> Result<()> {
    let Some((row, bytes)) = operator.get(key)? else { return Err(Nothing(NO_TIMEOUT.to_owned()).into()) };
    if out.json {
        let mut json = row.json();
        json["payload"] = payload(&bytes).into();
        return out.answer("", &json);
    }
    out.table(vec![row])?;
    out.answer(&format!("payload: {}", payload(&bytes)), &json!(null))
}

fn cancel(out: &mut Out<'_, impl Write>, operator: &Operator, filter: &Filter, dry_run: bool) -> Result<()> {
    let (count, left, text, json);
    if dry_run {
        let all = operator.count(filter)?;
        count = if all == 0 { 0 } else { operator.count(&filter.clone().running(false))?.min(all) };
        left = all - count;
        text = format!("{count} would be cancelled. {left} run, and would not.");
        json = json!({ "would_cancel": count, "running": left });
    } else {
        let done = operator.cancel(filter)?;
        (count, left) = (done.cancelled, done.left);
        text = match left {
            0 => format!("{count} cancelled."),
            _ => format!("{count} cancelled. {left} left: running, locked by somebody, or new."),
        };
        json = json!({ "cancelled": count, "left": left });
    }
    done(out, count, &text, &json, if left == 0 { NO_TIMEOUT } else { &text })
}

/// Says what was done to so many, or why it was to none.
fn done(out: &mut Out<'_, impl Write>, count: u64, text: &str, json: &Value, why: &str) -> Result<()> {
    if count > 0 || out.json {
        out.answer(text, json)?;
    }
    if count > 0 { Ok(()) } else { Err(Nothing(why.to_owned()).into()) }
}

fn dead(out: &mut Out<'_, impl Write>, operator: &Operator, command: Dead) -> Result<()> {
    match command {
        Dead::List { which, after_generation, page } => {
            let mut filter = which.filter();
            if let Some(key) = &page.after {
                filter = match after_generation {
                    Some(generation) => filter.after_letter(key, generation),
                    None => filter.after(key),
                };
            }
            list_dead(out, operator, filter, &page)
        }
        Dead::Revive { which, dry_run: true, .. } => {
            let count = operator.count_dead(&which.filter())?;
            let text = format!("{count} match. Of each key the last would be scheduled, unless the key is already.");
            done(out, count, &text, &json!({ "would_revive_at_most": count }), NO_LETTER)
        }
        Dead::Revive { which, delay, dry_run: false } => {
            let count = operator.revive_dead(&which.filter(), delay)?;
            let is_there = count == 0 && operator.count_dead(&which.filter())? > 0;
            let why = if is_there { "each key that matches is scheduled already" } else { NO_LETTER };
            done(out, count, &format!("{count} scheduled."), &json!({ "revived": count }), why)
        }
        Dead::Delete { which, dry_run: true } => {
            let count = operator.count_dead(&which.filter())?;
            done(out, count, &format!("{count} would be deleted."), &json!({ "would_delete": count }), NO_LETTER)
        }
        Dead::Delete { which, dry_run: false } => {
            let count = operator.delete_dead(&which.filter())?;
            done(out, count, &format!("{count} deleted."), &json!({ "deleted": count }), NO_LETTER)
        }
    }
}

fn print_migrations(out: &mut Out<'_, impl Write>, dialect: Dialect, after: i64) -> Result<()> {
    for (number, sql) in migrations(dialect).filter(|(number, _)| *number > after) {
        let text = format!("-- tourbillon-durable, migration {number}\n{sql}");
        out.answer(&text, &json!({ "number": number, "sql": sql }))?;
    }
    Ok(())
}

fn dialect_of(store: &str) -> Dialect {
    if store.starts_with("postgres://") || store.starts_with("postgresql://") {
        Dialect::Postgres
    } else {
        Dialect::Sqlite
    }
}
