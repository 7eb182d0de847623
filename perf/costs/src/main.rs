//! `tourbillon-costs`: what each operation costs that can be counted, held to a baseline.
//!
//! No clock: read-modify-writes, cache lines, system calls, allocations and instructions are the
//! same on a loaded machine. A copy of this process does one operation many times over, and is
//! stepped through instruction by instruction, or run under callgrind.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod baseline;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod callgrind;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod check;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod conflicts;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod costs;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod decode;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod explain;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod heap;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod local;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod meter;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod operation;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod places;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stepper;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod subject;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod turn_thread;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod turns;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../src/valgrind.rs"]
mod valgrind;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: heap::Counting = heap::Counting;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> std::process::ExitCode {
    check::main()
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    eprintln!("tourbillon-costs: costs are counted on Linux on x86-64 only. NOTHING WAS CHECKED.");
}
