//! The order of the runs: for each repetition each case, and in each case each system in its turn.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::cases::{Case, Work};
use super::child::{self, Line};
use super::job::Job;
use super::machine::Machine;
use super::ping_pong::round_trip;
use super::programs::{Folder, Program};
use super::report::{Report, Row, Run, RunResult, TableOf};
use super::statistics::NEAR_NS;
use super::systems::names::{How, Name};

/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// A system, or a build of one, that is compared.
#[derive(Debug)]
struct Player {
    called: String,
    system: Name,
    /// Where to run it, or why it can't be run.
    stage: Result<Program, String>,
}

/// All that are compared; the first is the reference.
#[derive(Debug)]
pub(crate) struct Orchestra {
    players: Vec<Player>,
}

impl Orchestra {
    /// Systems, each in this program or in one of its own; all, if none is named.
    pub(crate) fn of_systems(program: PathBuf, named: &[Name], peers: Option<&Path>) -> Self {
        let folder = Folder::new(peers);
        let player = |system: Name| {
            let stage = match system.how() {
                How::Here => Ok(Program::Build(program.clone())),
                How::Peer if cfg!(feature = "peers") => Ok(Program::Build(program.clone())),
                How::Peer => Err("this program was built without the feature `peers`".to_owned()),
                How::Java(java) => folder.java(java),
                How::Native(name) => folder.native(name),
            };
            Player { called: system.id().to_owned(), system, stage }
        };
        // Without the feature its systems are left out, unless they are asked for.
        let there = |system: &Name| cfg!(feature = "peers") || system.how() != How::Peer;
        let wanted = |system: &Name| if named.is_empty() { there(system) } else { named.contains(system) };
        Self { players: Name::value_variants().iter().copied().filter(wanted).map(player).collect() }
    }

    /// Tourbillon in several builds of this program.
    pub(crate) fn of_builds(builds: &[(String, PathBuf)], system: Name) -> Self {
        let player = |(called, program): &(String, PathBuf)| Player {
            called: called.clone(),
            system,
            stage: Ok(Program::Build(program.clone())),
        };
        Self { players: builds.iter().map(player).collect() }
    }

    /// Measures everything.
    pub(crate) fn play(
        &self,
        cases: &[&'static Case],
        repeat: usize,
        job: impl Fn(&'static Case, usize) -> Job,
    ) -> Report {
        let started = Instant::now();
        let machine = Machine::look();
        let jobs: Vec<Job> = cases
            .iter()
            .flat_map(|&case| case.producers.iter().map(|&producers| job(case, producers)).collect::<Vec<_>>())
            .collect();
        let mut rows: Vec<Vec<Row>> = jobs.iter().map(|job| self.prepare(job)).collect();
        for repetition in 1..=repeat {
            for (job, rows) in jobs.iter().zip(&mut rows) {
                self.measure_all(job, repetition, rows);
                eprintln!(
                    "{} of {repeat}: {} with {} producer{} ({:.1} minutes so far)",
                    repetition,
                    job.case.id,
                    job.producers,
                    if job.producers == 1 { "" } else { "s" },
                    started.elapsed().as_secs_f64() / 60.0
                );
            }
        }
        let reference = self.players.first().map_or("", |player| &player.called);
        let table = |(job, rows): (&Job, _)| TableOf::new(job.case, job.producers, reference, rows);
        let scale = jobs.first().map_or(1.0, |job| job.scale);
        Report {
            machine,
            repeat,
            scale,
            near_below_ns: NEAR_NS,
            reference: reference.to_owned(),
            minutes: started.elapsed().as_secs_f64() / 60.0,
            systems: self.players.iter().map(Player::explained).collect(),
            tables: jobs.iter().zip(rows).map(table).collect(),
        }
    }

    /// The rows of a case, still without runs.
    fn prepare(&self, job: &Job) -> Vec<Row> {
        let there = |player: &&Player| !player.system.stays_out(job.case.work);
        let row = |player: &Player| {
            let cannot = player.system.cannot(job.case.work).map(str::to_owned);
            let not_measured = cannot.or_else(|| player.stage.as_ref().err().cloned());
            let ours = player.system.is_ours();
            Row { system: player.called.clone(), ours, not_measured, ..Row::default() }
        };
        self.players.iter().filter(there).map(row).collect()
    }

    /// Each in its turn, another one first each time, so that none always follows the same. Except
    /// that they are idle together: each counts its own wake-ups and its own CPU, and asleep they
    /// are not in each other's way.
    fn measure_all(&self, job: &Job, repetition: usize, rows: &mut [Row]) {
        if job.case.work == Work::Idle {
            let ping_pong_ns = round_trip();
            thread::scope(|scope| {
                for row in rows {
                    scope.spawn(move || self.measure(job, repetition, ping_pong_ns, row));
                }
            });
            return;
        }
        let places = rows.len();
        for turn in 0..places {
            let row = &mut rows[(turn + repetition - 1) % places];
            if row.not_measured.is_none() {
                self.measure(job, repetition, round_trip(), row);
            }
        }
    }

    fn measure(&self, job: &Job, repetition: usize, ping_pong_ns: Option<f64>, row: &mut Row) {
        let Some(player) = self.players.iter().find(|player| player.called == row.system) else { return };
        let (None, Ok(program)) = (&row.not_measured, &player.stage) else { return };
        let since = Instant::now();
        let result = match child::measure(program.command(player.system.id(), job), job, PATIENCE) {
            Ok(line) => RunResult::Measured(line),
            Err(why) => {
                eprintln!("{} {}: {why:#}", player.called, job.case.id);
                RunResult::Failed { failed: format!("{why:#}") }
            }
        };
        row.runs.push(Run { repetition, ping_pong_ns, seconds: since.elapsed().as_secs_f64(), result });
    }
}

impl Player {
    fn explained(&self) -> (String, String) {
        let explained = match &self.stage {
            Ok(Program::Build(path)) if self.called != self.system.id() => path.display().to_string(),
            _ => self.system.explained().to_owned(),
        };
        (self.called.clone(), explained)
    }
}

/// Whether Tourbillon kept what it promises, in every run: none early, none lost, none twice, and
/// no run that failed.
pub(crate) fn promises_kept(report: &Report) -> bool {
    let mut kept = true;
    for table in &report.tables {
        for row in table.rows.iter().filter(|row| row.ours) {
            for run in &row.runs {
                if let Some(why) = run.line().map_or_else(|failed| Some(failed.clone()), Line::broken) {
                    println!("{} broke a promise in {}, repetition {}: {why}", row.system, table.case, run.repetition);
                    kept = false;
                }
            }
        }
    }
    kept
}
