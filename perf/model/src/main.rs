//! `tourbillon-model`: what operations would cost on more cores than there are here, if a simple
//! model of caches is to be believed; and whether it is.
//!
//! A copy of this process does operations of Tourbillon and of other timers on several threads, one
//! after the other, and is stepped through instruction by instruction. Which cache lines each
//! operation reads and writes, in which order, is then replayed on modelled cores.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod cli;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod compare;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../costs/src/decode.rs"]
mod decode;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../src/duration.rs"]
#[allow(dead_code, reason = "the package whose file this is uses the rest")]
mod duration;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod lines;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod measured;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../costs/src/meter.rs"]
#[allow(dead_code, reason = "the package whose file this is uses the rest")]
mod meter;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod operation;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod predict;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod protocol;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod record;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod recording;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod replay;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod report;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod scaling;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../costs/src/stepper.rs"]
#[allow(dead_code, reason = "the package whose file this is uses the rest")]
mod stepper;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod subject;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../costs/src/turns.rs"]
mod turns;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> std::process::ExitCode {
    cli::main()
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    eprintln!("tourbillon-model: operations are recorded on Linux on x86-64 only. NOTHING WAS MODELLED.");
}
