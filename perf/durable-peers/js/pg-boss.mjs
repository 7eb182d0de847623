// pg-boss: its defaults, and the settings that its documentation has for speed.
import { PgBoss } from 'pg-boss';

const queue = 'timeouts';
const work = {
  default: {},
  batched: { batchSize: 1000, burstWhenBatchFull: true },
  fast: { pollingIntervalSeconds: 0.5, batchSize: 1000, burstWhenBatchFull: true },
  notify: {
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 0.5,
    batchSize: 1000,
    burstWhenBatchFull: true,
    localConcurrency: 2,
  },
};

export default async function open(connectionString, settings) {
  const notify = settings === 'notify';
  const boss = new PgBoss({ connectionString, max: settings === 'default' ? 10 : 20, useListenNotify: notify });
  boss.on('error', (error) => console.error(`pg-boss: ${error}`));
  await boss.start();
  await boss.createQueue(queue, { notify });
  return {
    schedule: (dues, date) =>
      dues.length === 1
        ? boss.send(queue, { due: dues[0] }, { startAfter: date(dues[0]) })
        : boss.insert(queue, dues.map((due) => ({ data: { due }, startAfter: date(due) }))),
    work: (ran) => boss.work(queue, work[settings], async (jobs) => jobs.forEach((job) => ran(job.data.due))),
  };
}
