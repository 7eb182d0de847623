//! Tables for a terminal.

use comfy_table::{CellAlignment, Table, presets};

/// Prints a table. The first columns, as many as `left`, are aligned to the left, the others to the
/// right.
pub(crate) fn print<R>(header: &[&str], rows: impl IntoIterator<Item = R>, left: usize)
where
    R: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    table.column_iter_mut().skip(left).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}");
}
