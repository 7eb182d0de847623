//! Several files of `compare --json` as one.

use anyhow::{Context, Result, ensure};

use crate::compare::case_place;
use crate::compare::report::{Report, TableOf};

/// Merges files in their order. A row of a later file replaces the same row of an earlier one,
/// whole, with its ratios, which are within its own run.
///
/// # Errors
///
/// If there is no file, or if two files differ in their reference or their scale.
pub(super) fn merged(files: Vec<Report>) -> Result<Report> {
    let mut files = files.into_iter();
    let mut all = files.next().context("there is no run to report")?;
    for file in files {
        let (theirs, ours) = (&file.reference, &all.reference);
        ensure!(theirs == ours, "one run compares with {theirs}, the first with {ours}: they can't be merged");
        let (theirs, ours) = (file.scale, all.scale);
        ensure!(theirs.total_cmp(&ours).is_eq(), "one run is at a scale of {theirs}, the first at {ours}");
        if !all.machine.commit.contains(&file.machine.commit) {
            all.machine.commit = format!("{}, {}", all.machine.commit, file.machine.commit);
        }
        all.minutes += file.minutes;
        all.repeat = all.repeat.max(file.repeat);
        all.systems.extend(file.systems);
        for table in file.tables {
            take_in(&mut all.tables, table);
        }
    }
    all.tables.sort_by_key(|table| case_place(&table.case).unwrap_or(usize::MAX));
    Ok(all)
}

fn take_in(tables: &mut Vec<TableOf>, table: TableOf) {
    let same = |other: &&mut TableOf| other.case == table.case && other.producers == table.producers;
    let Some(there) = tables.iter_mut().find(same) else {
        tables.push(table);
        return;
    };
    for row in table.rows {
        match there.rows.iter_mut().find(|other| other.system == row.system) {
            Some(other) => *other = row,
            None => there.rows.push(row),
        }
    }
}
