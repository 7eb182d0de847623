import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import io.netty.util.Version;
import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * One case of the comparison, with a timer of Java's. The command line says what to do, and how much of it:
 * perf/src/compare/cases.rs has the numbers. The result is a line of JSON on standard output. Everything is first done
 * once at a smaller size, so that it is compiled.
 */
public final class TimerCase {
    /** A task: one object that each of the timers takes as it is. */
    interface Task extends Runnable, TimerTask {
        @Override
        default void run(Timeout timeout) {
            run();
        }
    }

    /** A timer under test. A process uses only one class of them, so its calls are inlined. */
    abstract static class Peer {
        abstract Object schedule(Task task, long delay, TimeUnit unit);

        /** None of them has a reset: it is a cancel and a new timeout. */
        abstract boolean cancel(Object handle);

        /** Ends its threads, and lets go of what is pending. */
        abstract void stop();

        abstract String version();
    }

    /** Netty's, with a tick of 1 ms, the shortest that it takes, and without leak detection. */
    static final class HashedWheel extends Peer {
        private final HashedWheelTimer timer;

        HashedWheel(int slots) {
            timer = new HashedWheelTimer(DAEMON, 1, TimeUnit.MILLISECONDS, slots, false);
            timer.start();
        }

        @Override
        Object schedule(Task task, long delay, TimeUnit unit) {
            return timer.newTimeout(task, delay, unit);
        }

        @Override
        boolean cancel(Object handle) {
            return ((Timeout) handle).cancel();
        }

        @Override
        void stop() {
            timer.stop();
        }

        @Override
        String version() {
            return "Netty " + Version.identify().values().stream()
                    .filter(version -> version.artifactId().equals("netty-common"))
                    .map(Version::artifactVersion).findFirst().orElse("of unknown version");
        }
    }

    /** One of the JDK's, with one thread for the tasks. */
    static final class Executor extends Peer {
        private final ScheduledExecutorService executor;

        private Executor(ScheduledExecutorService executor) {
            this.executor = executor;
        }

        /** One heap under a lock. It takes a cancelled task out at once, as else a ring would fill the memory. */
        static Peer scheduledThreadPool() {
            ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1, DAEMON);
            executor.setRemoveOnCancelPolicy(true);
            return new Executor(executor);
        }

        /** From Java 25 on it schedules, too, with a thread of its own for the time. */
        static Peer forkJoinPool() {
            Object pool = new ForkJoinPool(1);
            if (!(pool instanceof ScheduledExecutorService)) {
                throw new UnsupportedOperationException("before Java 25 a ForkJoinPool does not schedule");
            }
            return new Executor((ScheduledExecutorService) pool);
        }

        @Override
        Object schedule(Task task, long delay, TimeUnit unit) {
            return executor.schedule(task, delay, unit);
        }

        @Override
        boolean cancel(Object handle) {
            return ((Future<?>) handle).cancel(false);
        }

        @Override
        void stop() {
            executor.shutdownNow();
        }

        @Override
        String version() {
            return executor.getClass().getSimpleName();
        }
    }

    private static final ThreadFactory DAEMON = body -> {
        Thread thread = new Thread(body, "timer");
        thread.setDaemon(true);
        return thread;
    };
    private static final Task NOTHING = () -> { };
    private static final int ORDER = 1 << 18;
    private static final int RESETS = 4;

    private final Map<String, String> options;
    private final int producers;
    private final int beside;
    private final long leastUs;
    private final long mostUs;
    private final double pace;
    private final Map<String, Double> metrics = new LinkedHashMap<>();
    private String note;
    /** The last that was made. */
    private Peer timer;

    private TimerCase(Map<String, String> options) {
        this.options = options;
        producers = number("producers");
        beside = number("beside");
        leastUs = Long.parseLong(options.get("least-us"));
        mostUs = Long.parseLong(options.get("most-us"));
        pace = Double.parseDouble(options.get("pace"));
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) {
            options.put(args[i].replaceFirst("^--", ""), args[i + 1]);
        }
        TimerCase run = new TimerCase(options);
        int timeouts = run.number("timeouts");
        int operations = run.number("operations");
        switch (options.get("work")) {
            case "schedule", "schedule-cold", "ring", "reset", "producers" -> {
                run.race(timeouts, operations / 4 + 1);
                run.race(timeouts, operations / 4 + 1);
                System.gc();
                run.race(timeouts, operations);
            }
            case "lateness" -> run.lateness(timeouts);
            case "memory" -> run.memory(timeouts);
            case "idle" -> run.idle(timeouts);
            case "tail" -> run.tail(timeouts, (operations + run.producers - 1) / run.producers);
            case "burst" -> run.burst(timeouts, false);
            case "burst-clock" -> run.burst(timeouts, true);
            default -> throw new IllegalArgumentException("no timer of Java does " + options.get("work"));
        }
        System.out.println(run.json());
        System.out.flush();
        // Without taking the timer apart.
        Runtime.getRuntime().halt(0);
    }

    private int number(String option) {
        return Integer.parseInt(options.get(option));
    }

    /** Ends the last timer, and makes a new one. */
    private Peer start() {
        if (timer != null) {
            timer.stop();
        }
        switch (options.get("timer")) {
            case "hashed-wheel" -> timer = new HashedWheel(number("slots"));
            case "scheduled-thread-pool" -> timer = Executor.scheduledThreadPool();
            case "fork-join-pool" -> timer = Executor.forkJoinPool();
            default -> throw new IllegalArgumentException("there is no timer " + options.get("timer"));
        }
        return timer;
    }

    /** Until it has taken in what was scheduled before: its queue is in order, and this is the last in it. */
    private static void settle(Peer timer) throws InterruptedException {
        Recorder last = new Recorder(1, false);
        timer.schedule(last.task(0), 1, TimeUnit.MILLISECONDS);
        last.await(System.nanoTime() + 60_000_000_000L);
    }

    private long delay(SplittableRandom random) {
        return random.nextLong(leastUs, mostUs + 1);
    }

    private Object[] fill(Peer timer, int count, long seed, Task task) {
        SplittableRandom random = new SplittableRandom(seed);
        Object[] handles = new Object[count];
        for (int i = 0; i < count; i++) {
            handles[i] = timer.schedule(task == null ? new Own(i) : task, delay(random), TimeUnit.MICROSECONDS);
        }
        return handles;
    }

    private static int[] shuffled(int count, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        int[] order = new int[count];
        for (int i = 0; i < count; i++) {
            int other = random.nextInt(i + 1);
            order[i] = order[other];
            order[other] = i;
        }
        return order;
    }

    private static void require(int refused) {
        if (refused > 0) {
            throw new IllegalStateException(refused + " were not cancelled, and none was due");
        }
    }

    /** W1 to W3, and W8. */
    private void race(int timeouts, int operations) throws Exception {
        switch (options.get("work")) {
            case "schedule", "schedule-cold" -> report("", race(start(), operations, p -> schedule(p, operations)));
            case "ring" -> report("", race(start(), operations, p -> ring(timeouts, operations)));
            case "reset" -> report("", race(start(), operations, p -> {
                Object[] handles = fill(timer, timeouts, p, NOTHING);
                settle(timer);
                int[] order = new SplittableRandom(p).ints(ORDER, 0, timeouts).toArray();
                return () -> reset(handles, order, operations);
            }));
            default -> {
                // As many timeouts whatever the number of producers.
                int each = (timeouts + producers - 1) / producers;
                report("schedule_", race(start(), each, p -> schedule(p, each)));
                report("reset_", race(start(), each * RESETS, p -> {
                    Object[] handles = fill(timer, each, p, NOTHING);
                    settle(timer);
                    int[] order = shuffled(each, p);
                    return () -> reset(handles, order, each * RESETS);
                }));
                report("cancel_", race(start(), each, p -> {
                    Object[] handles = fill(timer, each, p, NOTHING);
                    settle(timer);
                    int[] order = shuffled(each, p);
                    return () -> {
                        int refused = 0;
                        for (int place : order) {
                            refused += timer.cancel(handles[place]) ? 0 : 1;
                        }
                        require(refused);
                    };
                }));
                metrics.keySet().removeIf(key -> key.endsWith("cpu_ns"));
            }
        }
    }

    private Work schedule(int producer, int each) {
        SplittableRandom random = new SplittableRandom(producer);
        long[] delays = new long[each];
        Arrays.setAll(delays, i -> delay(random));
        Object[] handles = new Object[each];
        return () -> {
            for (int i = 0; i < each; i++) {
                handles[i] = timer.schedule(NOTHING, delays[i], TimeUnit.MICROSECONDS);
            }
        };
    }

    private Work ring(int length, int steps) {
        Object[] ring = fill(timer, length, 0, NOTHING);
        return () -> {
            int refused = 0;
            for (int step = 0, place = 0; step < steps; step++) {
                refused += timer.cancel(ring[place]) ? 0 : 1;
                ring[place] = timer.schedule(NOTHING, mostUs, TimeUnit.MICROSECONDS);
                place = place + 1 == length ? 0 : place + 1;
            }
            require(refused);
        };
    }

    /** W13: each call is timed. A reset is cancel and new. */
    private void tail(int length, int steps) throws Exception {
        long[][] took = new long[3][producers * steps];
        for (int turn = 0; turn < 3; turn++) {
            double[] lap = race(start(), steps, p -> {
                Object[] ring = fill(timer, length, p, NOTHING);
                return () -> {
                    for (int step = 0, at = p * steps; step < steps; step++, at++) {
                        int place = step % length;
                        int other = (step + length / 2) % length;
                        long begin = System.nanoTime();
                        boolean cancelled = timer.cancel(ring[place]);
                        long then = System.nanoTime();
                        ring[place] = timer.schedule(NOTHING, mostUs, TimeUnit.MICROSECONDS);
                        long next = System.nanoTime();
                        boolean reset = timer.cancel(ring[other]);
                        ring[other] = timer.schedule(NOTHING, mostUs, TimeUnit.MICROSECONDS);
                        took[2][at] = System.nanoTime() - next;
                        took[0][at] = next - then;
                        took[1][at] = then - begin;
                        require(cancelled && reset ? 0 : 1);
                    }
                };
            });
            metrics.put("cpu_ns", lap[1]);
        }
        String[] calls = {"schedule", "cancel", "reset"};
        for (int call = 0; call < calls.length; call++) {
            Arrays.sort(took[call]);
            metrics.put(calls[call] + "_p99_us", at(took[call], 0.99) * 1e3);
            metrics.put(calls[call] + "_p999_us", at(took[call], 0.999) * 1e3);
            metrics.put(calls[call] + "_max_us", at(took[call], 1) * 1e3);
        }
    }

    private void reset(Object[] handles, int[] order, int resets) {
        int refused = 0;
        for (int i = 0, at = 0; i < resets; i++) {
            int place = order[at];
            at = at + 1 == order.length ? 0 : at + 1;
            refused += timer.cancel(handles[place]) ? 0 : 1;
            handles[place] = timer.schedule(NOTHING, mostUs, TimeUnit.MICROSECONDS);
        }
        require(refused);
    }

    private interface Work {
        void run() throws Exception;
    }

    private interface Prepare {
        Work work(int producer) throws Exception;
    }

    private void report(String prefix, double[] lap) {
        metrics.put(prefix + "ns", lap[0]);
        metrics.put(prefix + "cpu_ns", lap[1]);
        metrics.put(prefix + "mops", lap[2]);
    }

    /**
     * Runs the work on all producers at once. CPU is counted until the worker has taken in what it was given. Returns
     * nanoseconds and CPU nanoseconds per operation, and millions of operations a second of all together.
     */
    private double[] race(Peer timer, int each, Prepare prepare) throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(producers + 1);
        long[] since = new long[producers];
        long[] until = new long[producers];
        for (int producer = 0; producer < producers; producer++) {
            int number = producer;
            new Thread(() -> {
                try {
                    Work work = prepare.work(number);
                    barrier.await();
                    barrier.await();
                    since[number] = System.nanoTime();
                    work.run();
                    until[number] = System.nanoTime();
                    barrier.await();
                    barrier.await();
                } catch (Exception why) {
                    why.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
            }).start();
        }
        // All have prepared; all begin; all have ended; the CPU has been read.
        barrier.await();
        long cpu = cpuNanos();
        barrier.await();
        barrier.await();
        settle(timer);
        cpu = cpuNanos() - cpu;
        barrier.await();
        long sum = 0;
        for (int producer = 0; producer < producers; producer++) {
            sum += until[producer] - since[producer];
        }
        long whole = Arrays.stream(until).max().getAsLong() - Arrays.stream(since).min().getAsLong();
        double operations = (double) producers * each;
        return new double[] {sum / operations, cpu / operations, operations * 1e3 / whole};
    }

    /** A record of a run's timeouts. Each task is an object of its own, as a server's is: a pointer and a number. */
    private static final class Recorder {
        final long[] deadlines;
        /** Lateness in nanoseconds; only the timer's thread writes. */
        final long[] late;
        final byte[] runs;
        volatile boolean done;
        volatile long lastRan;
        int ran;
        volatile Thread waiting;

        Recorder(int total, boolean timed) {
            deadlines = new long[timed ? total : 0];
            late = new long[timed ? total : 0];
            runs = new byte[total];
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
                done = true;
                LockSupport.unpark(waiting);
            }
        }

        /** Whether all have run by then. */
        boolean await(long limit) {
            waiting = Thread.currentThread();
            while (!done && System.nanoTime() < limit) {
                LockSupport.parkNanos(this, Math.min(limit - System.nanoTime(), 100_000_000L));
            }
            return done;
        }

        int count(int least) {
            int count = 0;
            for (byte run : runs) {
                count += run >= least ? 1 : 0;
            }
            return count;
        }
    }

    /** A task that is not to run: a pointer and a number. */
    private static final class Own implements Task {
        static volatile int strays;
        final Class<?> pointer = TimerCase.class;
        final int number;

        Own(int number) {
            this.number = number;
        }

        @Override
        public void run() {
            strays++;
        }
    }

    private void lateness(int timeouts) throws Exception {
        // Compiles what expires timeouts; a timer of its own.
        Peer warm = start();
        Recorder first = new Recorder(Math.min(timeouts, 100_000), true);
        for (int i = 0; i < first.runs.length; i++) {
            first.deadlines[i] = System.nanoTime();
            warm.schedule(first.task(i), i, TimeUnit.MICROSECONDS);
        }
        first.await(System.nanoTime() + 10_000_000_000L);

        Peer timer = start();
        SplittableRandom random = new SplittableRandom(0);
        Object[] others = new Object[beside];
        for (int i = 0; i < beside; i++) {
            others[i] = timer.schedule(new Own(i), random.nextLong(30_000_000L, 60_000_000L), TimeUnit.MICROSECONDS);
        }
        settle(timer);
        Recorder recorder = new Recorder(timeouts, true);
        Object[] handles = new Object[timeouts];
        long cpu = cpuNanos();
        for (int i = 0; i < timeouts; i++) {
            long delay = delay(random);
            recorder.deadlines[i] = System.nanoTime() + delay * 1_000;
            handles[i] = timer.schedule(recorder.task(i), delay, TimeUnit.MICROSECONDS);
        }
        recorder.await(System.nanoTime() + 30_000_000_000L);
        cpu = cpuNanos() - cpu;
        Thread.sleep(20);
        describe(recorder);
        if (Own.strays > 0) {
            note = Own.strays + " of those due later ran";
        }
        metrics.put("cpu_s", cpu / 1e9);
        Reference.reachabilityFence(handles);
        Reference.reachabilityFence(others);
    }

    private void describe(Recorder recorder) {
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
        metrics.put("p50_ms", at(late, 0.5));
        metrics.put("p99_ms", at(late, 0.99));
        metrics.put("p999_ms", at(late, 0.999));
        metrics.put("max_ms", at(late, 1));
        metrics.put("early", (double) early);
        metrics.put("missing", (double) (recorder.runs.length - ran));
        metrics.put("twice", (double) recorder.count(2));
    }

    private static double at(long[] sorted, double share) {
        int place = (int) Math.ceil(share * sorted.length) - 1;
        return sorted.length == 0 ? 0 : sorted[Math.min(Math.max(place, 0), sorted.length - 1)] / 1e6;
    }

    private void memory(int timeouts) throws Exception {
        Peer timer = start();
        settle(timer);
        System.gc();
        Runtime java = Runtime.getRuntime();
        // First, as what a thread allocates in is used as a whole.
        long heap = java.totalMemory() - java.freeMemory();
        Object[] handles = fill(timer, timeouts, 0, null);
        settle(timer);
        // The resident size depends on when the collector last ran. The used size does not, and is the lesser.
        System.gc();
        heap = java.totalMemory() - java.freeMemory() - heap;
        if (Own.strays > 0) {
            throw new IllegalStateException(Own.strays + " ran, and none was due");
        }
        metrics.put("bytes", (double) heap / timeouts);
        note = "bytes of the heap, after a collection";
        Reference.reachabilityFence(handles);
    }

    private void idle(int timeouts) throws Exception {
        Peer timer = start();
        Object[] handles = fill(timer, timeouts, 0, null);
        settle(timer);
        Thread.sleep((long) (500 * pace));
        long cpu = cpuNanos();
        long before = wakeups();
        Thread.sleep((long) (5_000 * pace));
        metrics.put("wakeups", (double) (wakeups() - before));
        metrics.put("cpu_ms", (cpuNanos() - cpu) / 1e6);
        Reference.reachabilityFence(handles);
    }

    /** With a clock, each task reads it, and keeps how late it is. */
    private void burst(int tasks, boolean clock) throws Exception {
        // Twice beforehand, for the compiler.
        for (int turn = 0; turn < 3; turn++) {
            Peer timer = start();
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
            long cpu = cpuNanos();
            if (!recorder.await(deadline + 60_000_000_000L) || recorder.count(2) > 0) {
                throw new IllegalStateException("not all ran once");
            }
            metrics.put("cpu_ns", (double) (cpuNanos() - cpu) / tasks);
            metrics.put("ms", Math.max(recorder.lastRan - deadline, 0) / 1e6);
            if (clock) {
                describe(recorder);
            }
            Reference.reachabilityFence(handles);
        }
    }

    /** CPU time of all threads that live, in nanoseconds, by the scheduler's account. */
    private static long cpuNanos() throws IOException {
        return sumOverThreads(thread -> Long.parseLong(Files.readString(thread.resolve("schedstat")).split(" ")[0]));
    }

    /** How often all threads but the main one have gone to sleep. */
    private static long wakeups() throws IOException {
        // The thread that main() runs on, which is not the first of the process.
        Path own = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName();
        return sumOverThreads(thread -> {
            for (String line : Files.readAllLines(thread.resolve("status"))) {
                if (line.startsWith("voluntary_ctxt_switches:") && !thread.getFileName().equals(own)) {
                    return Long.parseLong(line.substring(line.indexOf(':') + 1).trim());
                }
            }
            return 0;
        });
    }

    private interface Reading {
        long of(Path thread) throws IOException;
    }

    private static long sumOverThreads(Reading reading) throws IOException {
        long sum = 0;
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path thread : threads) {
                try {
                    sum += reading.of(thread);
                } catch (IOException ended) {
                    // Between the listing and the reading: left out.
                    continue;
                }
            }
        }
        return sum;
    }

    private String json() {
        StringBuilder out = new StringBuilder(String.format(Locale.ROOT,
                "{\"system\":\"%s\",\"case\":\"%s\",\"producers\":%d,\"metrics\":{", options.get("system"),
                options.get("case"), producers));
        String comma = "";
        for (Map.Entry<String, Double> metric : metrics.entrySet()) {
            out.append(comma).append('"').append(metric.getKey()).append("\":").append(metric.getValue());
            comma = ",";
        }
        out.append("},\"notes\":[\"").append(timer.version()).append(", Java ").append(Runtime.version()).append('"');
        return out.append(note == null ? "" : ",\"" + note + '"').append("]}").toString();
    }
}
