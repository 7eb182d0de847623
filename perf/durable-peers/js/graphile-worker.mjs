// Graphile Worker: with the settings that its page on performance has.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';

const identifier = 'timeout';
const fast = {
  pollInterval: 10,
  concurrentJobs: 24,
  maxPoolSize: 26,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
};
// It logs a line for each job.
const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(`graphile-worker: ${message}`);
});

export default async function open(connectionString) {
  const utils = await makeWorkerUtils({ connectionString, maxPoolSize: 20, logger });
  await utils.migrate();
  return {
    schedule: (dues, date) =>
      dues.length === 1
        ? utils.addJob(identifier, { due: dues[0] }, { runAt: date(dues[0]) })
        : utils.addJobs(dues.map((due) => ({ identifier, payload: { due }, runAt: date(due) }))),
    work: (ran) =>
      run({
        preset: { worker: { connectionString, logger, crontabFile: '/dev/null', ...fast } },
        taskList: { [identifier]: ({ due }) => ran(due) },
        noHandleSignals: true,
      }),
  };
}
