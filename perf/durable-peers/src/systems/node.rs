//! The systems for Node: js/peer.mjs schedules in one process and works in another, as Node has one
//! thread for both.

use std::{
    collections::HashMap,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, oneshot},
};

use crate::peer::{Due, Peer, Seen};

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// The folder of the JavaScript programs, with their `node_modules`.
const JS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/js");

pub struct Node {
    arguments: [String; 2],
    input: AsyncMutex<ChildStdin>,
    waiting: Waiting,
    // Killed when they are dropped.
    producer: Mutex<Child>,
    worker: Mutex<Option<Child>>,
}

/// A line of the producer's.
#[derive(Debug, Deserialize)]
struct Answer {
    id: u64,
    #[serde(default)]
    count: u64,
    error: Option<String>,
}

/// A line of the worker's: what ran, and when.
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    ran: Vec<(Due, Due)>,
}

impl Node {
    pub async fn open(system: &str, url: &str) -> Result<Self> {
        let arguments = [system.to_owned(), url.to_owned()];
        let (producer, input, mut lines) = start(&arguments, "produce").await?;
        let waiting = Waiting::default();
        let answers = waiting.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(answer) = serde_json::from_str::<Answer>(&line) else {
                    eprintln!("the producer said: {line}");
                    continue;
                };
                if let Some(sender) = answers.lock().expect("no lock is held over a panic").remove(&answer.id) {
                    let _ = sender.send(answer);
                }
            }
            // Who still waits sees that nobody will answer.
            answers.lock().expect("no lock is held over a panic").clear();
        });
        Ok(Node {
            arguments,
            input: AsyncMutex::new(input),
            waiting,
            producer: Mutex::new(producer),
            worker: Mutex::new(None),
        })
    }

    async fn ask(&self, mut question: Value) -> Result<u64> {
        let (sender, receiver) = oneshot::channel();
        let id = fastrand::u64(..1 << 53);
        question["id"] = json!(id);
        self.waiting.lock().expect("no lock is held over a panic").insert(id, sender);
        let line = format!("{question}\n");
        self.input.lock().await.write_all(line.as_bytes()).await?;
        let answer = receiver.await.map_err(|_| self.gone())?;
        match answer.error {
            Some(error) => Err(anyhow!("{}: {error}", self.arguments[0])),
            None => Ok(answer.count),
        }
    }

    fn gone(&self) -> anyhow::Error {
        let status = self.producer.lock().expect("no lock is held over a panic").try_wait();
        anyhow!("{}: the producer ended: {status:?}", self.arguments[0])
    }
}

/// Starts js/peer.mjs and waits until it is ready.
async fn start(arguments: &[String; 2], role: &str) -> Result<(Child, ChildStdin, Lines<BufReader<ChildStdout>>)> {
    // The package `node` brings the Node that both systems need, whatever is installed.
    let node = Path::new(JS).join("node_modules/.bin/node");
    let mut child = Command::new(&node)
        .current_dir(JS)
        .arg("peer.mjs")
        .args(arguments)
        .arg(role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {}; scripts/durable-peers installs it", node.display()))?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else { bail!("no pipes") };
    let mut lines = BufReader::new(output).lines();
    let first = lines.next_line().await?;
    if first.as_deref() != Some("ready") {
        bail!("{} is not ready to {role}: it said {first:?}", arguments[0]);
    }
    Ok((child, input, lines))
}

#[async_trait]
impl Peer for Node {
    async fn schedule(&self, dues: &[Due]) -> Result<()> {
        self.ask(json!({ "dues": dues })).await?;
        Ok(())
    }

    async fn work(&self, seen: Arc<Seen>) -> Result<()> {
        let (worker, input, mut lines) = start(&self.arguments, "work").await?;
        *self.worker.lock().expect("no lock is held over a panic") = Some(worker);
        tokio::spawn(async move {
            // The worker ends when its input does.
            let _input = input;
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str::<Report>(&line) {
                    Ok(report) => report.ran.into_iter().for_each(|(due, at)| seen.ran(due, at)),
                    Err(_) => eprintln!("the worker said: {line}"),
                }
            }
        });
        Ok(())
    }

    async fn produce(&self, producers: usize, time: Duration, batch: usize) -> Result<u64> {
        // In the producer's own loop, so that no pipe is between it and its commits.
        self.ask(
            json!({ "produce": { "producers": producers, "ms": u64::try_from(time.as_millis())?, "batch": batch } }),
        )
        .await
    }
}
