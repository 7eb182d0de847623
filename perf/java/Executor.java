import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** One of the JDK's, with one thread for the tasks. */
final class Executor extends Peer {
    private final ScheduledExecutorService executor;
    private final String threads;

    private Executor(ScheduledExecutorService executor, String threads) {
        this.executor = executor;
        this.threads = threads;
    }

    /** One heap under a lock. What is cancelled is taken out at once, as else a ring would fill the memory. */
    static Peer scheduledThreadPool() {
        String name = "jdk-timer";
        ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1, r -> {
            Thread thread = new Thread(r, name);
            thread.setDaemon(true);
            return thread;
        });
        executor.setRemoveOnCancelPolicy(true);
        return new Executor(executor, name);
    }

    /** From Java 25 on it schedules, too, with a thread of its own for the time. */
    static Peer forkJoinPool() {
        Object pool = new ForkJoinPool(1);
        if (!(pool instanceof ScheduledExecutorService)) {
            throw new UnsupportedOperationException("before Java 25 a ForkJoinPool does not schedule");
        }
        // Its threads are called ForkJoinPool-..., which the JVM shortens in the middle.
        return new Executor((ScheduledExecutorService) pool, "ForkJoi");
    }

    @Override
    void start() {
        // The first task starts what there is to start.
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
    String threads() {
        return threads;
    }

    @Override
    String version() {
        return executor.getClass().getSimpleName();
    }
}
