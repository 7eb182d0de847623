import java.util.SplittableRandom;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;

/** W1 to W3: loops over operations that several producers run at once. */
final class Loops {
    private static final int RING = 1_000;
    private static final int KEEP_ALIVES = 100_000;
    private static final int ORDER = 1 << 18;

    private Loops() { }

    /** What a producer has prepared, and what it then does. */
    interface Work {
        void run() throws Exception;
    }

    interface Prepare {
        Work work(int producer) throws Exception;
    }

    /** What a race took. */
    static final class Lap {
        double nanos;
        double cpuNanos;
        double millionsASecond;

        void report(TimerCase run) {
            run.metrics.put("ns", nanos);
            run.metrics.put("cpu_ns", cpuNanos);
            run.metrics.put("mops", millionsASecond);
        }
    }

    /** Runs the work on all producers at once; CPU is counted until the worker has taken in what it was given. */
    static Lap race(Peer timer, int producers, int operationsEach, Prepare prepare) throws Exception {
        CyclicBarrier ready = new CyclicBarrier(producers + 1);
        CyclicBarrier start = new CyclicBarrier(producers + 1);
        CyclicBarrier done = new CyclicBarrier(producers + 1);
        CyclicBarrier read = new CyclicBarrier(producers + 1);
        long[] since = new long[producers];
        long[] until = new long[producers];
        for (int producer = 0; producer < producers; producer++) {
            int number = producer;
            Thread thread = new Thread(() -> {
                try {
                    Work work = prepare.work(number);
                    ready.await();
                    start.await();
                    since[number] = System.nanoTime();
                    work.run();
                    until[number] = System.nanoTime();
                    done.await();
                    read.await();
                } catch (Exception why) {
                    why.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
            });
            thread.start();
        }
        ready.await();
        long cpu = TimerCase.cpuNanos();
        start.await();
        done.await();
        TimerCase.settle(timer);
        cpu = TimerCase.cpuNanos() - cpu;
        read.await();
        long sum = 0;
        long first = Long.MAX_VALUE;
        long last = Long.MIN_VALUE;
        for (int producer = 0; producer < producers; producer++) {
            sum += until[producer] - since[producer];
            first = Math.min(first, since[producer]);
            last = Math.max(last, until[producer]);
        }
        double operations = (double) producers * operationsEach;
        Lap lap = new Lap();
        lap.nanos = sum / operations;
        lap.cpuNanos = cpu / operations;
        lap.millionsASecond = operations * 1e3 / (last - first);
        return lap;
    }

    static long[] delays(int count, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        long[] delays = new long[count];
        for (int i = 0; i < count; i++) {
            delays[i] = random.nextLong(30_000_000L, 60_000_000L);
        }
        return delays;
    }

    static Peer schedule(TimerCase run, int each) throws Exception {
        Peer timer = run.timer();
        timer.start();
        race(timer, run.producers, each, producer -> {
            long[] delays = delays(each, producer);
            Object[] handles = new Object[each];
            return () -> {
                for (int i = 0; i < each; i++) {
                    handles[i] = timer.schedule(TimerCase.NOTHING, delays[i], TimeUnit.MICROSECONDS);
                }
            };
        }).report(run);
        return timer;
    }

    static Peer ring(TimerCase run, int steps) throws Exception {
        Peer timer = run.timer();
        timer.start();
        race(timer, run.producers, steps, producer -> {
            Object[] ring = new Object[RING];
            for (int i = 0; i < RING; i++) {
                ring[i] = timer.schedule(TimerCase.NOTHING, 60, TimeUnit.SECONDS);
            }
            return () -> {
                int cancelled = 0;
                for (int step = 0, place = 0; step < steps; step++) {
                    if (timer.cancel(ring[place])) {
                        cancelled++;
                    }
                    ring[place] = timer.schedule(TimerCase.NOTHING, 60, TimeUnit.SECONDS);
                    place = place + 1 == RING ? 0 : place + 1;
                }
                if (cancelled != steps) {
                    throw new IllegalStateException((steps - cancelled) + " were not cancelled, and none was due");
                }
            };
        }).report(run);
        return timer;
    }

    static Peer reset(TimerCase run, int resets) throws Exception {
        Peer timer = run.timer();
        timer.start();
        int keepAlives = run.of(KEEP_ALIVES);
        race(timer, run.producers, resets, producer -> {
            Object[] handles = new Object[keepAlives];
            for (int i = 0; i < keepAlives; i++) {
                handles[i] = timer.schedule(TimerCase.NOTHING, 60, TimeUnit.SECONDS);
            }
            TimerCase.settle(timer);
            SplittableRandom random = new SplittableRandom(producer);
            int[] order = new int[ORDER];
            for (int i = 0; i < ORDER; i++) {
                order[i] = random.nextInt(keepAlives);
            }
            return () -> {
                int refused = 0;
                for (int i = 0; i < resets; i++) {
                    int place = order[i & (ORDER - 1)];
                    if (!timer.cancel(handles[place])) {
                        refused++;
                    }
                    handles[place] = timer.schedule(TimerCase.NOTHING, 60, TimeUnit.SECONDS);
                }
                if (refused != 0) {
                    throw new IllegalStateException(refused + " were not cancelled, and none was due");
                }
            };
        }).report(run);
        return timer;
    }
}
