//! The matrix, for people.

use comfy_table::{Cell, CellAlignment, presets};

use super::table::{Relation, Table};

/// Prints for each relation the lines, a letter for each, and in which pairs of operations they
/// are.
pub(crate) fn print(table: &Table) {
    for &relation in table.relations.keys() {
        println!("\nCache lines that both touch and one writes; {}:", relation.explained());
        let legend = table.legend(relation);
        if legend.is_empty() {
            println!("  none, in any pair of operations");
            continue;
        }
        for (letter, name) in legend {
            println!("  {letter}  {name}");
        }
        println!("{}", grid(table, relation));
    }
}

fn grid(table: &Table, relation: Relation) -> comfy_table::Table {
    let columns = table.columns(relation);
    let mut grid = comfy_table::Table::new();
    grid.load_style(presets::UTF8_FULL_CONDENSED);
    // Two producers' columns are their rows again, by number.
    let head = |(number, name): (usize, &String)| {
        if relation.is_symmetric() { (number + 1).to_string() } else { name.clone() }
    };
    grid.set_header([String::new(), String::new()].into_iter().chain(columns.iter().enumerate().map(head)));
    for (number, row) in table.operations.iter().enumerate() {
        let number = Cell::new(number + 1).set_alignment(CellAlignment::Right);
        let letters = columns.iter().map(|column| Cell::new(table.letters(relation, row, column)));
        grid.add_row([number, Cell::new(row)].into_iter().chain(letters));
    }
    grid
}
