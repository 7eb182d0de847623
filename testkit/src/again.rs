//! A test that starts its own program again, to be alone in a process, or several processes.

use std::env;
use std::path::Path;
use std::process::Command;

/// The environment variable with the words that begin a command for a program of another platform,
/// such as `qemu-aarch64 -L /usr/aarch64-linux-gnu`. Cargo runs the tests by the same words, and
/// tells them nothing of it. `scripts/platforms` sets both.
const RUNNER: &str = "TOURBILLON_TEST_RUNNER";

/// Returns a command for this program again, which runs only the test with this name, and shows
/// what it prints. The name has the modules in front of it, and not the crate.
///
/// # Panics
/// Panics if the system does not say where this program is.
pub fn test(name: &str) -> Command {
    let program = env::current_exe().expect("a test's program");
    let mut command = through(&env::var(RUNNER).unwrap_or_default(), &program);
    command.args(["--exact", name, "--nocapture"]);
    command
}

/// Returns whether this program runs through such words. Then what the system says of the process's
/// memory is also true of the emulator's.
pub fn is_emulated() -> bool {
    env::var_os(RUNNER).is_some()
}

/// Returns a command for `program`, through `runner` if that has any word.
fn through(runner: &str, program: &Path) -> Command {
    let mut words = runner.split_whitespace();
    let Some(first) = words.next() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<&str> {
        let words = [command.get_program()].into_iter().chain(command.get_args());
        words.map(|word| word.to_str().expect("UTF-8")).collect()
    }

    #[test]
    fn a_program_is_started_through_the_runner_if_there_is_one() {
        let program = Path::new("/a path/tests");
        assert_eq!(words(&through("", program)), ["/a path/tests"]);
        assert_eq!(words(&through(" ", program)), ["/a path/tests"]);
        assert_eq!(words(&through("qemu -L /usr", program)), ["qemu", "-L", "/usr", "/a path/tests"]);
    }

    #[test]
    fn the_test_that_is_named_runs_alone() {
        const TEST: &str = "again::tests::the_test_that_is_named_runs_alone";
        const CHILD: &str = "TOURBILLON_AGAIN_CHILD";
        if env::var_os(CHILD).is_some() {
            return println!("it is the child");
        }
        let child = test(TEST).env(CHILD, "").output().expect("room for a process");
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
        assert!(said.contains("it is the child") && said.contains("1 passed"), "{said}");
    }
}
