// pg-boss, with the settings that its documentation has for speed.
import { PgBoss } from 'pg-boss';

const queue = 'timeouts';
const options = { pollingIntervalSeconds: 0.5, batchSize: 1000, burstWhenBatchFull: true };

export default async function open(connectionString) {
  const boss = new PgBoss({ connectionString, max: 20 });
  boss.on('error', (error) => console.error(`pg-boss: ${error}`));
  await boss.start();
  await boss.createQueue(queue);
  return {
    schedule: (dues, date) =>
      dues.length === 1
        ? boss.send(queue, { due: dues[0] }, { startAfter: date(dues[0]) })
        : boss.insert(queue, dues.map((due) => ({ data: { due }, startAfter: date(due) }))),
    work: (ran) => boss.work(queue, options, async (jobs) => jobs.forEach((job) => ran(job.data.due))),
  };
}
