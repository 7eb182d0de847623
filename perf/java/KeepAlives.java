import java.util.Locale;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** W4: what timeouts cost that are pushed out again and again, before they are due. */
final class KeepAlives {
    private static final int TIMEOUTS = 1_000_000;
    private static final int STEPS_A_SECOND = 1_000;
    private static final long STEP = 1_000_000L;
    private static final int STEPS = 10_000;
    /** One for all, in its favour. */
    private static final Task STRAY = new Waits.Own(0);

    private KeepAlives() { }

    static void run(TimerCase run) throws Exception {
        Peer timer = run.timer();
        timer.start();
        int timeouts = run.of(TIMEOUTS);
        Object[] handles = new Object[timeouts];
        // As if they had been reset last over the ten seconds before.
        SplittableRandom random = new SplittableRandom(0);
        for (int i = 0; i < timeouts; i++) {
            long delay = random.nextLong(5_000_000L, 15_000_000L);
            handles[i] = timer.schedule(STRAY, delay, TimeUnit.MICROSECONDS);
        }
        TimerCase.settle(timer);
        int[] order = shuffled(timeouts);
        int steps = (int) (STEPS * run.pace);
        // A second, in which each is reset, and the compiler has its time.
        int place = reset(timer, handles, order, 0, STEPS_A_SECOND);

        long cpu = TimerCase.cpuNanos();
        long workerCpu = TimerCase.cpuNanosOf(timer);
        long wakeups = TimerCase.wakeupsOf(timer);
        long since = System.nanoTime();
        reset(timer, handles, order, place, steps);
        double took = (System.nanoTime() - since) / 1e9;
        run.metrics.put("cpu_s", (TimerCase.cpuNanos() - cpu) / 1e9);
        run.metrics.put("worker_cpu_s", (TimerCase.cpuNanosOf(timer) - workerCpu) / 1e9);
        run.metrics.put("wakeups", (double) (TimerCase.wakeupsOf(timer) - wakeups));
        run.metrics.put("pool_cpu_s", 0.0);
        run.metrics.put("pool_wakeups", 0.0);
        run.metrics.put("pool_threads", 0.0);
        if (Waits.Own.strays > 0) {
            throw new IllegalStateException(Waits.Own.strays + " ran, and none was due");
        }
        double length = steps * STEP / 1e9;
        if (took > length * 1.01) {
            run.note = String.format(Locale.ROOT, "the resets of %.1f s took %.1f s", length, took);
        }
        Waits.keep(handles);
    }

    /** Packets come in no order. */
    private static int[] shuffled(int count) {
        SplittableRandom random = new SplittableRandom(0);
        int[] order = new int[count];
        for (int i = 0; i < count; i++) {
            int other = random.nextInt(i + 1);
            order[i] = order[other];
            order[other] = i;
        }
        return order;
    }

    /** Resets a thousandth of them in each step; returns where in the order it has come to. */
    private static int reset(Peer timer, Object[] handles, int[] order, int from, int steps) {
        int batch = (handles.length + STEPS_A_SECOND - 1) / STEPS_A_SECOND;
        int at = from;
        int refused = 0;
        long since = System.nanoTime();
        for (int step = 1; step <= steps; step++) {
            for (int i = 0; i < batch; i++) {
                int place = order[at];
                at = at + 1 == order.length ? 0 : at + 1;
                if (!timer.cancel(handles[place])) {
                    refused++;
                }
                handles[place] = timer.schedule(STRAY, 15, TimeUnit.SECONDS);
            }
            for (long left; (left = since + step * STEP - System.nanoTime()) > 0;) {
                LockSupport.parkNanos(left);
            }
        }
        if (refused > 0) {
            throw new IllegalStateException(refused + " were not cancelled, and none was due");
        }
        return at;
    }
}
