//! Goes through what stands between the marks of another process, instruction by instruction.
//!
//! Only the thread that has come to a mark is stepped through; the others run, and have nothing to
//! do. The time stamp counter stands nearly still for it: a step takes microseconds, and the
//! producers' clock would find that its last look is too old, each time.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::IoSliceMut;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use libc::user_regs_struct;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::decode::{Decoded, Kind, LONGEST, Manner, Touched};
use super::meter::Mark;

const LINE: u64 = 64;
/// So far above the stack pointer at a mark is still stack, and so far below it.
const FRAMES_BYTES: usize = 4096;
const STACK_BELOW: u64 = 1 << 20;
/// What the time stamp counter moves on by when it is read.
const COUNTS: u64 = 64;

/// Does `work` so far down the stack that all of what the stepper takes for a part of the stack is
/// one: it reaches a little above the frame of what is stepped through.
pub(crate) fn with_stack_above<R>(work: impl FnOnce() -> R) -> R {
    let above = std::hint::black_box([0_u8; FRAMES_BYTES]);
    let result = work();
    std::hint::black_box(&above);
    result
}

/// What happened between two marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// The number of the thread, as it says itself.
    pub(crate) lane: u64,
    /// What was measured, as the thread says.
    pub(crate) label: u64,
    pub(crate) operations: u64,
    /// System calls, if those were counted.
    pub(crate) calls: u64,
    /// The addresses of the instructions, in order; none if only system calls were counted.
    pub(crate) path: Vec<u64>,
    /// The addresses of those that are read-modify-writes.
    pub(crate) read_modify_writes: Vec<u64>,
    /// The addresses of those that are system calls; none if they were only counted.
    pub(crate) call_sites: Vec<u64>,
    /// Cache lines outside of the stack, each with the addresses of the instructions that wrote it.
    pub(crate) written: BTreeMap<u64, BTreeSet<u64>>,
    /// The same of those that were read.
    pub(crate) read: BTreeMap<u64, BTreeSet<u64>>,
    /// What was touched outside of the stack, in order.
    #[allow(dead_code, reason = "`perf/model`, which has this file, too, replays it")]
    pub(crate) accesses: Vec<Access>,
}

/// One instruction's access to some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "`perf/model`, which has this file, too, replays it")]
pub(crate) struct Access {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) manner: Manner,
    /// The number of its instruction in the path.
    pub(crate) at: usize,
}

/// All that a process had between its marks.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) sections: Vec<Section>,
    /// Where its program was loaded.
    pub(crate) base: u64,
}

/// Why there is no trace: the system does not let this process trace another.
#[derive(Debug)]
pub(crate) struct NotPermitted;

impl std::fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this system does not permit to trace a child process (ptrace)")
    }
}

impl std::error::Error for NotPermitted {}

/// Runs the command to its end.
pub(crate) fn trace(command: &mut Command) -> Result<Trace> {
    // SAFETY: between fork and exec this is one system call, which neither allocates nor locks.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(|error| {
        let refused = error.kind() == std::io::ErrorKind::PermissionDenied;
        if refused { anyhow::Error::new(NotPermitted) } else { anyhow::Error::new(error) }
    })?;
    let mut tracer = Tracer::new(child)?;
    let done = tracer.run();
    if done.is_err() {
        // It may stand at a breakpoint for ever.
        let _ = tracer.child.kill();
    }
    done?;
    Ok(Trace { sections: tracer.sections, base: tracer.base })
}

struct Tracer {
    child: Child,
    main: Pid,
    base: u64,
    sections: Vec<Section>,
    code: HashMap<u64, Decoded>,
    /// The time stamp counter, as each thread has last read it.
    counters: HashMap<Pid, u64>,
}

impl Tracer {
    fn new(child: Child) -> Result<Self> {
        let main = Pid::from_raw(i32::try_from(child.id()).context("a process id")?);
        let (sections, code, counters) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut tracer = Self { child, main, base: 0, sections, code, counters };
        // It stops when it has become the program that it is to be.
        tracer.wait(main)?;
        let options = Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(main, options).context("cannot trace the threads of the process")?;
        tracer.base = base_of(main)?;
        ptrace::cont(main, None)?;
        Ok(tracer)
    }

    /// Waits for one thread to stop.
    fn wait(&self, thread: Pid) -> Result<WaitStatus> {
        waitpid(thread, Some(WaitPidFlag::__WALL)).context("cannot wait for the process that is measured")
    }

    fn run(&mut self) -> Result<()> {
        loop {
            // Of this thread's children only: a test runs other tests beside it.
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            match waitpid(Pid::from_raw(-1), Some(flags)).context("cannot wait for the process that is measured")? {
                WaitStatus::Exited(thread, code) if thread == self.main => {
                    ensure!(code == 0, "the process that is measured ended with status {code}");
                    return Ok(());
                }
                WaitStatus::Signaled(thread, signal, _) if thread == self.main => {
                    bail!("the process that is measured was ended by {signal}")
                }
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {}
                WaitStatus::Stopped(thread, Signal::SIGTRAP) => {
                    self.section(thread)?;
                    ptrace::cont(thread, None)?;
                }
                // A new thread, and its parent.
                WaitStatus::Stopped(thread, Signal::SIGSTOP) | WaitStatus::PtraceEvent(thread, ..) => {
                    ptrace::cont(thread, None)?;
                }
                WaitStatus::Stopped(thread, signal) => ptrace::cont(thread, signal)?,
                other => bail!("the process that is measured did what was not expected: {other:?}"),
            }
        }
    }

    /// The thread has come to a mark: goes with it to the end mark.
    fn section(&mut self, thread: Pid) -> Result<()> {
        let registers = ptrace::getregs(thread)?;
        let mut section =
            Section { lane: registers.rsi, operations: registers.rdx, label: registers.r8, ..Section::default() };
        match registers.rdi {
            mark if mark == Mark::Step as u64 => self.step_through(thread, registers, &mut section)?,
            mark if mark == Mark::Calls as u64 => self.count_calls(thread, &mut section)?,
            mark => bail!("a breakpoint that is no mark, {mark}, at {:#x}", registers.rip),
        }
        self.sections.push(section);
        Ok(())
    }

    fn step_through(&mut self, thread: Pid, mut now: user_regs_struct, section: &mut Section) -> Result<()> {
        let stack = now.rsp.saturating_sub(STACK_BELOW)..now.rsp + FRAMES_BYTES as u64;
        loop {
            let decoded = self.decode(thread, now.rip)?;
            match decoded.kind {
                Kind::Breakpoint => {
                    ensure!(now.rdi == Mark::End as u64, "a mark within a section, at {:#x}", now.rip);
                    now.rip += 1;
                    return ptrace::setregs(thread, now).context("cannot step over a mark");
                }
                Kind::ReadModifyWrite => section.read_modify_writes.push(now.rip),
                Kind::SystemCall => section.call_sites.push(now.rip),
                Kind::Plain | Kind::Counter => {}
            }
            let is_counter = decoded.kind == Kind::Counter;
            let manner = decoded.manner();
            let touched = decoded.touched(&now)?;
            // A string instruction stops after each of its repetitions.
            if section.path.last() != Some(&now.rip) {
                section.path.push(now.rip);
            }
            touched.iter().filter(|touched| !stack.contains(&touched.address)).for_each(|touched| {
                touched.note(now.rip, section);
                section.accesses.push(Access::new(touched, manner, section.path.len() - 1));
            });
            ptrace::step(thread, None)?;
            match self.wait(thread)? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                other => bail!("a step at {:#x} ended with {other:?}", now.rip),
            }
            now = ptrace::getregs(thread)?;
            if is_counter {
                self.slow_down(thread, &mut now)?;
            }
        }
    }

    fn decode(&mut self, thread: Pid, address: u64) -> Result<&Decoded> {
        Ok(match self.code.entry(address) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Decoded::new(&read_code(thread, address)?, address)?),
        })
    }

    /// Just read: lets it say what it said before, and a little more.
    fn slow_down(&mut self, thread: Pid, now: &mut user_regs_struct) -> Result<()> {
        let read = now.rax | now.rdx << 32;
        let counter = self.counters.entry(thread).and_modify(|counter| *counter += COUNTS).or_insert(read);
        (now.rax, now.rdx) = (*counter & u64::from(u32::MAX), *counter >> 32);
        ptrace::setregs(thread, *now).context("cannot set the registers")
    }

    fn count_calls(&self, thread: Pid, section: &mut Section) -> Result<()> {
        let mut is_entry = false;
        loop {
            ptrace::syscall(thread, None)?;
            match self.wait(thread)? {
                WaitStatus::PtraceSyscall(_) => {
                    is_entry = !is_entry;
                    section.calls += u64::from(is_entry);
                }
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                    let now = ptrace::getregs(thread)?;
                    ensure!(now.rdi == Mark::End as u64, "a mark within a section, at {:#x}", now.rip);
                    return Ok(());
                }
                WaitStatus::PtraceEvent(..) => {}
                other => bail!("the process that is measured did what was not expected: {other:?}"),
            }
        }
    }
}

impl Access {
    fn new(touched: &Touched, manner: Manner, at: usize) -> Self {
        let manner = if touched.writes { manner } else { Manner::Read };
        Self { address: touched.address, bytes: touched.bytes, manner, at }
    }
}

impl Touched {
    fn note(&self, by: u64, section: &mut Section) {
        let lines = self.address / LINE..=(self.address + self.bytes.max(1) - 1) / LINE;
        let touched = if self.writes { &mut section.written } else { &mut section.read };
        lines.for_each(|line| _ = touched.entry(line).or_default().insert(by));
    }
}

fn read_code(thread: Pid, address: u64) -> Result<Vec<u8>> {
    let mut code = [0; LONGEST];
    let base = usize::try_from(address).context("an address")?;
    // An instruction may be the last of its page, and the next page may not be there.
    for len in [LONGEST, LONGEST.min(4096 - base % 4096)] {
        let remote = [RemoteIoVec { base, len }];
        if let Ok(read) = process_vm_readv(thread, &mut [IoSliceMut::new(&mut code[..len])], &remote) {
            return Ok(code[..read].to_vec());
        }
    }
    bail!("cannot read the code at {address:#x}")
}

/// Where the program of a process lies in its memory.
fn base_of(process: Pid) -> Result<u64> {
    let program = fs::read_link(format!("/proc/{process}/exe")).context("cannot find the program that is measured")?;
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).context("cannot read the memory map")?;
    let program = program.display().to_string();
    let first = maps.lines().find(|line| line.ends_with(&program)).context("the program is not in its own memory")?;
    let (from, _) = first.split_once('-').context("a memory map of an unknown form")?;
    u64::from_str_radix(from, 16).context("a memory map of an unknown form")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::arch::asm;
    use std::env;

    const IS_SUBJECT: &str = "TOURBILLON_COSTS_TEST_SUBJECT";

    /// Two of them.
    #[repr(align(64))]
    struct Lines([u64; 16]);

    /// Runs itself once more, under the tracer.
    fn trace_test(name: &str) -> Trace {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", &format!("stepper::tests::{name}")]).env(IS_SUBJECT, "1");
        trace(&mut command).expect("a trace")
    }

    fn is_subject() -> bool {
        env::var_os(IS_SUBJECT).is_some()
    }

    #[test]
    fn a_known_piece_of_code_costs_what_is_known() {
        if is_subject() {
            let mut lines = [const { Lines([0; 16]) }; 4].map(Box::new);
            let [a, b, c, d] = lines.each_mut().map(|lines| lines.0.as_mut_ptr());
            // SAFETY: writes to lines that are ours, and gives back what it takes from the stack.
            // The tracer goes on behind the breakpoints.
            unsafe {
                asm!(
                    "int3",
                    "lock xadd [{a}], {t}",     // 1, read-modify-write, line a
                    "xchg [{b}], {t}",          // 2, read-modify-write, line b
                    "cmpxchg [{c}], {t}",       // 3, not locked, line c
                    "mov {t}, [{d} + 8]",       // 4, reads line d
                    "mov [{c} + 60], {t}",      // 5, line c and the one after it
                    "push {t}",                 // 6, the stack
                    "pop {t}",                  // 7
                    "syscall",                  // 8, getpid
                    "mov edi, 0",               // 9
                    "int3",
                    a = in(reg) a, b = in(reg) b, c = in(reg) c, d = in(reg) d, t = inout(reg) 7_u64 => _,
                    inout("rdi") Mark::Step as u64 => _, in("rsi") 5, in("rdx") 3,
                    inout("rax") 39_u64 => _, out("rcx") _, out("r11") _,
                );
            }
            return;
        }
        let trace = trace_test("a_known_piece_of_code_costs_what_is_known");
        let [section] = &trace.sections[..] else { panic!("{} sections", trace.sections.len()) };
        assert_eq!((section.lane, section.operations), (5, 3));
        assert_eq!(section.path.len(), 9);
        assert_eq!(section.read_modify_writes, section.path[..2]);
        assert_eq!(section.written.len(), 4, "a, b, c and what follows c");
        assert_eq!(section.read.len(), 1, "d");
        assert_eq!(section.call_sites, section.path[7..8]);
        let manners: Vec<_> = section.accesses.iter().map(|access| (access.at, access.manner)).collect();
        let (rmw, xchg, write) = (Manner::ReadModifyWrite, Manner::Exchange, Manner::Write);
        assert_eq!(manners, [(0, rmw), (1, xchg), (2, write), (3, Manner::Read), (4, write)], "in order");
    }

    #[test]
    fn system_calls_of_the_thread_are_counted() {
        if is_subject() {
            use crate::meter::{Breakpoints, Meter};
            let mut meter = Breakpoints { mark: Mark::Calls, lane: 0, label: 0 };
            meter.measure(1, || ());
            // SAFETY: harmless.
            meter.measure(1, || (0..3).map(|_| unsafe { libc::getppid() }).max());
            return;
        }
        let trace = trace_test("system_calls_of_the_thread_are_counted");
        assert_eq!(trace.sections.iter().map(|section| section.calls).collect::<Vec<_>>(), [0, 3]);
    }

    #[test]
    fn the_time_stamp_counter_hardly_moves_between_steps() {
        if is_subject() {
            use crate::meter::{Breakpoints, Meter};
            // SAFETY: every x86-64 processor has the instruction.
            let read = || unsafe { core::arch::x86_64::_rdtsc() };
            let twice = || (read(), (0..100).map(std::hint::black_box).max(), read());
            let (first, _, second) = Breakpoints { mark: Mark::Step, lane: 0, label: 0 }.measure(1, twice);
            assert_eq!(second - first, COUNTS);
            return;
        }
        assert_eq!(trace_test("the_time_stamp_counter_hardly_moves_between_steps").sections.len(), 1);
    }

    #[test]
    fn a_process_that_fails_is_an_error() {
        assert!(trace(&mut Command::new("false")).is_err());
    }
}
