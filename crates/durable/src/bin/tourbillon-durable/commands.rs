//! What each command does.

use std::io::Write;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tourbillon_durable::{Dialect, Filter, Operator, migrations};

use crate::args::{Args, Command, Dead, Page, STORE, Which};
use crate::show::{Out, Shown, payload, plain};

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
        Command::Cancel { key: Some(key), dry_run, .. } => cancel_one(&mut out, &operator, &key, dry_run),
        Command::Cancel { key: None, which, dry_run } => cancel(&mut out, &operator, &which, dry_run),
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
    let Some((row, bytes)) = operator.get(key)? else { bail!(no_such(key)) };
    if out.json {
        let mut json = row.json();
        json["payload"] = payload(&bytes).into();
        return out.answer("", &json);
    }
    out.table(vec![row])?;
    out.answer(&format!("payload: {}", payload(&bytes)), &json!(null))
}

fn cancel_one(out: &mut Out<'_, impl Write>, operator: &Operator, key: &str, dry_run: bool) -> Result<()> {
    let filter = Filter::new().key(key);
    if dry_run {
        return would_cancel(out, operator, &filter);
    }
    let done = operator.cancel(&filter)?;
    match (done.cancelled, done.left) {
        (0, 0) => bail!(no_such(key)),
        (0, _) => bail!("{} runs, or somebody has locked its row: it was not cancelled", plain(key)),
        _ => out.answer(&format!("{} is cancelled.", plain(key)), &json!({ "cancelled": 1, "left": done.left })),
    }
}

fn cancel(out: &mut Out<'_, impl Write>, operator: &Operator, which: &Which, dry_run: bool) -> Result<()> {
    let filter = which.filter();
    if dry_run {
        return would_cancel(out, operator, &filter);
    }
    let done = operator.cancel(&filter)?;
    let left = match done.left {
        0 => String::new(),
        left => format!(" {left} are left: they run, somebody has locked their rows, or they are new."),
    };
    let text = format!("{} were cancelled.{left}", done.cancelled);
    out.answer(&text, &json!({ "cancelled": done.cancelled, "left": done.left }))
}

fn would_cancel(out: &mut Out<'_, impl Write>, operator: &Operator, filter: &Filter) -> Result<()> {
    let all = operator.count(filter)?;
    let idle = if all == 0 { 0 } else { operator.count(&filter.clone().running(false))?.min(all) };
    let text = format!("{idle} would be cancelled. {} run, and would not.", all - idle);
    out.answer(&text, &json!({ "would_cancel": idle, "running": all - idle }))
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
        Dead::Revive { which, delay } => {
            let revived = operator.revive_dead(&which.filter(), delay)?;
            out.answer(&format!("{revived} were scheduled."), &json!({ "revived": revived }))
        }
        Dead::Delete { which } => {
            let deleted = operator.delete_dead(&which.filter())?;
            out.answer(&format!("{deleted} were deleted."), &json!({ "deleted": deleted }))
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

fn no_such(key: &str) -> String {
    format!("there is no timeout with the key {}", plain(key))
}
