// Schedules or runs timeouts with a system for Node, for src/systems/node.rs:
//
//   node peer.mjs SYSTEM URL produce    reads {"id", "dues"} or {"id", "produce"}, answers
//                                                {"id", "count"} or {"id", "error"}, a line each
//   node peer.mjs SYSTEM URL work       writes {"ran": [[due, at], ...]}, a line each
//
// Times are microseconds since 1970.
import { createInterface } from 'node:readline';

const [system, url, role] = process.argv.slice(2);
const { default: open } = await import(`./${system}.mjs`);
const peer = await open(url);

const say = (what) => process.stdout.write(`${typeof what === 'string' ? what : JSON.stringify(what)}\n`);
const now = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const hour = 3_600_000_000;

// Both systems take milliseconds; rounded up, so that no timeout is early.
const date = (due) => new Date(Math.ceil(due / 1000));

async function produce({ producers, ms, batch }) {
  const end = performance.now() + ms;
  let count = 0;
  const one = async () => {
    while (performance.now() < end) {
      const dues = Array.from({ length: batch }, () => now() + 24 * hour + Math.floor(Math.random() * hour));
      await peer.schedule(dues, date);
      count += batch;
    }
  };
  await Promise.all(Array.from({ length: producers }, one));
  return count;
}

if (role === 'work') {
  let ran = [];
  await peer.work((due) => ran.push([due, now()]));
  setInterval(() => {
    if (ran.length > 0) {
      say({ ran });
      ran = [];
    }
  }, 50);
}
say('ready');
for await (const line of createInterface({ input: process.stdin })) {
  const { id, dues, produce: load } = JSON.parse(line);
  const work = load ? produce(load) : peer.schedule(dues, date).then(() => dues.length);
  // Not awaited, as producers are concurrent.
  work.then((count) => say({ id, count }), (error) => say({ id, error: String(error) }));
}
process.exit(0);
