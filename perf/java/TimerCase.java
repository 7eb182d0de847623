import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * One case of the comparison, with a timer of Java's: the same workloads as in perf/src/compare/workloads, and the
 * same line of JSON on standard output. Everything is first done once at a smaller size, so that it is compiled.
 */
public final class TimerCase {
    static final Task NOTHING = () -> { };

    final String name;
    final int producers;
    final double scale;
    final double pace;
    private final String kind;
    /** Of a wheel. */
    private final int slots;
    /** The last that was made. */
    private Peer timer;
    final Map<String, Double> metrics = new LinkedHashMap<>();
    double[][] percentiles = {};
    String note;

    TimerCase(Map<String, String> options) {
        name = options.get("case");
        producers = Integer.parseInt(options.get("producers"));
        scale = Double.parseDouble(options.get("scale"));
        pace = Double.parseDouble(options.get("pace"));
        kind = options.get("timer");
        slots = Integer.parseInt(options.getOrDefault("slots", "0"));
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) {
            options.put(args[i].replaceFirst("^--", ""), args[i + 1]);
        }
        TimerCase run = new TimerCase(options);
        run.measure();
        System.out.println(run.json(options.get("system")));
        System.out.flush();
        // Without taking the timer apart.
        Runtime.getRuntime().halt(0);
    }

    int of(int full) {
        return Math.max((int) (full * scale), Math.min(full, 100));
    }

    /** Returns a new timer. It may still have to be started. */
    Peer timer() {
        switch (kind) {
            case "hashed-wheel":
                return timer = new HashedWheel(slots);
            case "scheduled-thread-pool":
                return timer = Executor.scheduledThreadPool();
            case "fork-join-pool":
                return timer = Executor.forkJoinPool();
            default:
                throw new IllegalArgumentException("there is no timer " + kind);
        }
    }

    void measure() throws Exception {
        switch (name) {
            case "w1":
            case "w1-cold":
                Loops.schedule(this, of(300_000)).stop();
                Loops.schedule(this, of(300_000)).stop();
                System.gc();
                Loops.schedule(this, of(1_000_000));
                break;
            case "w2":
                Loops.ring(this, of(500_000)).stop();
                System.gc();
                Loops.ring(this, of(1_000_000));
                break;
            case "w3":
                Loops.reset(this, of(500_000)).stop();
                System.gc();
                Loops.reset(this, of(4_000_000));
                break;
            case "w4":
            case "w4-fine":
                Waits.lateness(this, 1_000_000, 0);
                break;
            case "w4-sparse":
                Waits.lateness(this, 500, 0);
                break;
            case "w4-crowded":
                Waits.lateness(this, 1_000_000, of(10_000_000));
                break;
            case "w4-storm":
                Storm.run(this);
                break;
            case "w4-keepalives":
                KeepAlives.run(this);
                break;
            case "w5":
                Waits.memory(this, of(1_000_000));
                break;
            case "w5-10m":
                Waits.memory(this, of(10_000_000));
                break;
            case "w6-empty":
                Waits.idle(this, 0);
                break;
            case "w6":
                Waits.idle(this, of(1_000_000));
                break;
            case "w7":
                Waits.burst(this, of(100_000), false);
                break;
            case "w7-clock":
                Waits.burst(this, of(100_000), true);
                break;
            case "w8-10k":
                Scaling.pending(this, of(10_000));
                break;
            case "w8-100k":
                Scaling.pending(this, of(100_000));
                break;
            case "w8-1m":
                Scaling.pending(this, of(1_000_000));
                break;
            case "w8-10m":
                Scaling.pending(this, of(10_000_000));
                break;
            case "w8-producers":
                Scaling.producers(this);
                break;
            default:
                throw new IllegalArgumentException("there is no case " + name);
        }
    }

    /** Until it has taken in what was scheduled before: its queue is in order, and this is the last in it. */
    static void settle(Peer timer) throws InterruptedException {
        boolean[] ran = {false};
        timer.schedule(() -> {
            synchronized (ran) {
                ran[0] = true;
                ran.notify();
            }
        }, 1, TimeUnit.MILLISECONDS);
        synchronized (ran) {
            while (!ran[0]) {
                ran.wait();
            }
        }
    }

    /** CPU time of all threads that live, in nanoseconds, by the scheduler's account. */
    static long cpuNanos() throws IOException {
        return sumOverThreads(CPU, thread -> true);
    }

    /** How often all threads but the main one have gone to sleep. */
    static long wakeups() throws IOException {
        // The thread that main() runs on, which is not the first of the process.
        Path own = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName();
        return sumOverThreads(SLEEPS, thread -> !thread.getFileName().equals(own));
    }

    /** CPU time of a timer's own threads. */
    static long cpuNanosOf(Peer timer) throws IOException {
        return sumOverThreads(CPU, thread -> isOf(timer, thread));
    }

    /** How often a timer's own threads have gone to sleep. */
    static long wakeupsOf(Peer timer) throws IOException {
        return sumOverThreads(SLEEPS, thread -> isOf(timer, thread));
    }

    /** Resident memory in bytes. */
    static long resident() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
            }
        }
        throw new IOException("this system does not say how much memory is resident");
    }

    /** What is read of a thread, by its folder in /proc. */
    private interface Reading<T> {
        T of(Path thread) throws IOException;
    }

    private static final Reading<Long> CPU =
            thread -> Long.parseLong(Files.readString(thread.resolve("schedstat")).split(" ")[0]);

    private static final Reading<Long> SLEEPS = thread -> {
        for (String line : Files.readAllLines(thread.resolve("status"))) {
            if (line.startsWith("voluntary_ctxt_switches:")) {
                return Long.parseLong(line.substring(line.indexOf(':') + 1).trim());
            }
        }
        return 0L;
    };

    private static boolean isOf(Peer timer, Path thread) throws IOException {
        return Files.readString(thread.resolve("comm")).startsWith(timer.threads());
    }

    private static long sumOverThreads(Reading<Long> reading, Reading<Boolean> wanted) throws IOException {
        long sum = 0;
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path thread : threads) {
                try {
                    sum += wanted.of(thread) ? reading.of(thread) : 0;
                } catch (IOException ended) {
                    // Between the listing and the reading: left out.
                    continue;
                }
            }
        }
        return sum;
    }

    private String json(String system) {
        StringBuilder out = new StringBuilder();
        out.append(String.format(Locale.ROOT, "{\"system\":\"%s\",\"case\":\"%s\",\"producers\":%d,\"metrics\":{",
                system, name, producers));
        String comma = "";
        for (Map.Entry<String, Double> metric : metrics.entrySet()) {
            out.append(comma).append('"').append(metric.getKey()).append("\":").append(metric.getValue());
            comma = ",";
        }
        out.append("},\"percentiles\":[");
        comma = "";
        for (double[] point : percentiles) {
            out.append(comma).append('[').append(point[0]).append(',').append(point[1]).append(']');
            comma = ",";
        }
        out.append("],\"notes\":[\"").append(timer.version()).append(", Java ").append(Runtime.version()).append('"');
        if (note != null) {
            out.append(",\"").append(note).append('"');
        }
        out.append("]}");
        return out.toString();
    }
}
