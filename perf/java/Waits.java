import java.util.Arrays;
import java.util.Locale;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** W4 to W7: what happens, or what is used, while nobody schedules. */
final class Waits {
    private static final int TIMEOUTS = 1_000_000;
    private static final int POINTS_A_HALF = 5;
    private static final int HALVES = 20;

    private Waits() { }

    /** What the timeouts of a run do: each is an object of its own, as a server's would be, with a pointer and a number. */
    static final class Recorder {
        final long[] deadlines;
        /** Lateness in nanoseconds; only the timer's thread writes. */
        final long[] late;
        final byte[] runs;
        volatile int left;
        volatile long lastRan;
        int ran;
        volatile Thread waiting;

        Recorder(int total, boolean timed) {
            deadlines = new long[timed ? total : 0];
            late = new long[timed ? total : 0];
            runs = new byte[total];
            left = total;
        }

        Task task(int number) {
            return () -> run(number);
        }

        void run(int number) {
            if (deadlines.length > 0 && runs[number] == 0) {
                late[number] = System.nanoTime() - deadlines[number];
            }
            if (runs[number]++ == 0 && ++ran == runs.length) {
                lastRan = System.nanoTime();
                left = 0;
                LockSupport.unpark(waiting);
            }
        }

        /** Whether all have run by then. */
        boolean await(long limit) {
            waiting = Thread.currentThread();
            while (left > 0 && System.nanoTime() < limit) {
                LockSupport.parkNanos(this, Math.min(limit - System.nanoTime(), 100_000_000L));
            }
            return left == 0;
        }

        int count(int least) {
            int count = 0;
            for (byte run : runs) {
                count += run >= least ? 1 : 0;
            }
            return count;
        }
    }

    static void lateness(TimerCase run, int due, int beside) throws Exception {
        // Compiles what expires timeouts; a timer of its own.
        Peer warm = run.timer();
        Recorder first = new Recorder(run.of(100_000), true);
        for (int i = 0; i < first.runs.length; i++) {
            first.deadlines[i] = System.nanoTime();
            warm.schedule(first.task(i), i, TimeUnit.MICROSECONDS);
        }
        first.await(System.nanoTime() + 10_000_000_000L);
        warm.stop();

        Peer timer = run.timer();
        timer.start();
        SplittableRandom random = new SplittableRandom(0);
        Object[] others = new Object[beside];
        for (int i = 0; i < beside; i++) {
            others[i] = timer.schedule(new Own(i), random.nextLong(30_000_000L, 60_000_000L), TimeUnit.MICROSECONDS);
        }
        TimerCase.settle(timer);
        int timeouts = run.of(due);
        Recorder recorder = new Recorder(timeouts, true);
        Object[] handles = new Object[timeouts];
        long cpu = TimerCase.cpuNanos();
        for (int i = 0; i < timeouts; i++) {
            long delay = (long) (random.nextLong(1_000_000L, 3_000_000L) * run.pace);
            recorder.deadlines[i] = System.nanoTime() + delay * 1_000;
            handles[i] = timer.schedule(recorder.task(i), delay, TimeUnit.MICROSECONDS);
        }
        recorder.await(System.nanoTime() + 30_000_000_000L);
        cpu = TimerCase.cpuNanos() - cpu;
        Thread.sleep(20);
        describe(run, recorder);
        if (Own.strays > 0) {
            run.note = Own.strays + " of those due later ran";
        }
        run.metrics.put("cpu_s", cpu / 1e9);
        keep(handles);
        keep(others);
    }

    static void describe(TimerCase run, Recorder recorder) {
        int ran = recorder.count(1);
        int early = 0;
        long[] late = new long[ran];
        for (int i = 0, at = 0; i < recorder.runs.length; i++) {
            if (recorder.runs[i] > 0) {
                early += recorder.late[i] < 0 ? 1 : 0;
                late[at++] = Math.max(recorder.late[i], 0);
            }
        }
        Arrays.sort(late);
        run.metrics.put("p50_ms", at(late, 0.5));
        run.metrics.put("p99_ms", at(late, 0.99));
        run.metrics.put("p999_ms", at(late, 0.999));
        run.metrics.put("max_ms", at(late, 1));
        run.metrics.put("early", (double) early);
        run.metrics.put("missing", (double) (recorder.runs.length - ran));
        run.metrics.put("twice", (double) recorder.count(2));
        run.percentiles = new double[HALVES * POINTS_A_HALF + 2][];
        for (int step = 0; step <= HALVES * POINTS_A_HALF + 1; step++) {
            double share = step > HALVES * POINTS_A_HALF ? 1 : 1 - Math.pow(0.5, (double) step / POINTS_A_HALF);
            run.percentiles[step] = new double[] {share, at(late, share)};
        }
    }

    static double at(long[] sorted, double share) {
        if (sorted.length == 0) {
            return 0;
        }
        int place = (int) Math.ceil(share * sorted.length) - 1;
        return sorted[Math.min(Math.max(place, 0), sorted.length - 1)] / 1e6;
    }

    /** A task of its own for each timeout: a pointer and a number. */
    static final class Own implements Task {
        /** How many ran that were not to run; only the timer's thread writes. */
        static volatile int strays;
        final Class<?> pointer = Waits.class;
        final int number;

        Own(int number) {
            this.number = number;
        }

        @Override
        public void run() {
            strays++;
        }
    }

    static void memory(TimerCase run, int timeouts) throws Exception {
        Peer timer = run.timer();
        timer.start();
        TimerCase.settle(timer);
        System.gc();
        Runtime java = Runtime.getRuntime();
        // First, as what a thread allocates in is used as a whole.
        long heap = java.totalMemory() - java.freeMemory();
        long resident = TimerCase.resident();
        SplittableRandom random = new SplittableRandom(0);
        Object[] handles = new Object[timeouts];
        for (int i = 0; i < timeouts; i++) {
            handles[i] = timer.schedule(new Own(i), random.nextLong(600_000_000L, 630_000_000L), TimeUnit.MICROSECONDS);
        }
        TimerCase.settle(timer);
        resident = TimerCase.resident() - resident;
        // What is resident depends on when the collector last ran; what is used does not, and is the lesser.
        System.gc();
        heap = java.totalMemory() - java.freeMemory() - heap;
        if (Own.strays > 0) {
            throw new IllegalStateException(Own.strays + " ran, and none was due");
        }
        run.metrics.put("bytes", (double) heap / timeouts);
        run.note = String.format(Locale.ROOT, "bytes of the heap; resident before a collection: %d", resident / timeouts);
        keep(handles);
    }

    static void idle(TimerCase run, int timeouts) throws Exception {
        Peer timer = run.timer();
        timer.start();
        SplittableRandom random = new SplittableRandom(0);
        Object[] handles = new Object[timeouts];
        for (int i = 0; i < timeouts; i++) {
            long delay = random.nextLong(3_600_000_000L, 3_660_000_000L);
            handles[i] = timer.schedule(new Own(i), delay, TimeUnit.MICROSECONDS);
        }
        TimerCase.settle(timer);
        Thread.sleep((long) (500 * run.pace));
        long cpu = TimerCase.cpuNanos();
        long before = TimerCase.wakeups();
        Thread.sleep((long) (5_000 * run.pace));
        run.metrics.put("wakeups", (double) (TimerCase.wakeups() - before));
        run.metrics.put("cpu_ms", (TimerCase.cpuNanos() - cpu) / 1e6);
        keep(handles);
    }

    /** With a clock, each task reads it, and keeps how late it is. */
    static void burst(TimerCase run, int tasks, boolean clock) throws Exception {
        // Twice beforehand, for the compiler.
        double ms = 0;
        long cpu = 0;
        for (int turn = 0; turn < 3; turn++) {
            Peer timer = run.timer();
            timer.start();
            Recorder recorder = new Recorder(tasks, clock);
            long deadline = System.nanoTime() + 500_000_000L + 3_000L * tasks;
            Arrays.fill(recorder.deadlines, deadline);
            Object[] handles = new Object[tasks];
            for (int i = 0; i < tasks; i++) {
                handles[i] = timer.schedule(recorder.task(i), deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            }
            if (System.nanoTime() >= deadline) {
                throw new IllegalStateException("this machine is too slow: the deadline had passed");
            }
            cpu = TimerCase.cpuNanos();
            if (!recorder.await(deadline + 60_000_000_000L) || recorder.count(2) > 0) {
                throw new IllegalStateException("not all ran once");
            }
            cpu = TimerCase.cpuNanos() - cpu;
            ms = Math.max(recorder.lastRan - deadline, 0) / 1e6;
            keep(handles);
            timer.stop();
            if (clock) {
                describe(run, recorder);
            }
        }
        run.metrics.put("ms", ms);
        run.metrics.put("cpu_ns", (double) cpu / tasks);
    }

    /** What is held until here can't be collected before. */
    static void keep(Object object) {
        java.lang.ref.Reference.reachabilityFence(object);
    }
}
