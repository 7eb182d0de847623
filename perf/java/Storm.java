import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** W4: how late timeouts are while two threads schedule and cancel, beside a thread that only sleeps. */
final class Storm {
    private static final int TIMEOUTS = 1_000_000;
    private static final long STEP = 1_000_000L;
    private static final long LENGTH = 3_000 * STEP;
    /** One for all that are not to run, in its favour. */
    private static final Task STRAY = new Waits.Own(0);

    private Storm() { }

    static void run(TimerCase run) throws Exception {
        // A short one first, for the compiler; a timer of its own.
        long length = (long) (LENGTH * run.pace);
        storm(run, length / 3);
        System.gc();
        storm(run, length);
    }

    private static void storm(TimerCase run, long length) throws Exception {
        Peer timer = run.timer();
        timer.start();
        int each = run.of(TIMEOUTS) / run.producers;
        int strays = Waits.Own.strays;
        CyclicBarrier filled = new CyclicBarrier(run.producers + 1);
        CyclicBarrier start = new CyclicBarrier(run.producers + 1);
        CyclicBarrier over = new CyclicBarrier(run.producers + 1);
        long[] until = {0};
        double[] rates = new double[run.producers];
        Object[][] all = new Object[run.producers][each];
        for (int producer = 0; producer < run.producers; producer++) {
            int number = producer;
            started("producer", () -> {
                Object[] handles = all[number];
                for (int i = 0; i < each; i++) {
                    handles[i] = timer.schedule(STRAY, 60, TimeUnit.SECONDS);
                }
                filled.await();
                start.await();
                rates[number] = turn(timer, handles, until[0]);
                over.await();
            });
        }
        filled.await();
        TimerCase.settle(timer);

        int due = (int) (length / STEP);
        Waits.Recorder recorder = new Waits.Recorder(due, true);
        SplittableRandom random = new SplittableRandom(0);
        long first = System.nanoTime() + 50_000_000L;
        Object[] handles = new Object[due];
        for (int i = 0; i < due; i++) {
            // Where in its step is random.
            recorder.deadlines[i] = first + i * STEP + random.nextLong(STEP);
            long delay = recorder.deadlines[i] - System.nanoTime();
            handles[i] = timer.schedule(recorder.task(i), delay, TimeUnit.NANOSECONDS);
        }
        until[0] = recorder.deadlines[due - 1];
        long[] asleep = new long[due];
        Thread sleeper = started("sleeper", () -> sleepThrough(recorder.deadlines, asleep));
        start.await();
        over.await();
        sleeper.join();
        recorder.await(System.nanoTime() + 30_000_000_000L);
        Thread.sleep(20);
        timer.stop();
        if (Waits.Own.strays > strays) {
            throw new IllegalStateException(Waits.Own.strays - strays + " ran, and none was due");
        }
        report(run, recorder, asleep);
        run.metrics.put("mops", Arrays.stream(rates).sum());
        Waits.keep(handles);
        Waits.keep(all);
    }

    /** Round after round cancels each and schedules another; returns millions a second. */
    private static double turn(Peer timer, Object[] handles, long until) {
        long since = System.nanoTime();
        long turns = 0;
        long refused = 0;
        while (System.nanoTime() < until) {
            for (int i = 0; i < handles.length; i++) {
                if (!timer.cancel(handles[i])) {
                    refused++;
                }
                handles[i] = timer.schedule(STRAY, 60, TimeUnit.SECONDS);
            }
            turns += handles.length;
        }
        if (refused > 0) {
            throw new IllegalStateException(refused + " were not cancelled, and none was due");
        }
        return turns * 1e3 / (System.nanoTime() - since);
    }

    private static void sleepThrough(long[] deadlines, long[] late) {
        for (int i = 0; i < deadlines.length; i++) {
            // It may wake for nothing.
            for (long left; (left = deadlines[i] - System.nanoTime()) > 0;) {
                LockSupport.parkNanos(left);
            }
            late[i] = System.nanoTime() - deadlines[i];
        }
    }

    private static void report(TimerCase run, Waits.Recorder recorder, long[] asleep) {
        Waits.describe(run, recorder);
        Arrays.sort(asleep);
        run.metrics.put("asleep_p50_ms", Waits.at(asleep, 0.5));
        run.metrics.put("asleep_p99_ms", Waits.at(asleep, 0.99));
        run.metrics.put("asleep_p999_ms", Waits.at(asleep, 0.999));
        run.metrics.put("asleep_max_ms", Waits.at(asleep, 1));
        run.metrics.put("more_p999_ms", run.metrics.get("p999_ms") - Waits.at(asleep, 0.999));
    }

    /** What a thread does, and may fail at. */
    private interface Body {
        void run() throws Exception;
    }

    private static Thread started(String name, Body body) {
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Exception why) {
                why.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        }, name);
        thread.start();
        return thread;
    }
}
