import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;

/** W8: by the number pending, and by the number of producers. */
final class Scaling {
    private static final int OPERATIONS = 200_000;
    private static final int BATCH = 10_000;
    private static final int TIMEOUTS = 800_000;
    private static final int RESETS = 4;

    private Scaling() { }

    static void pending(NettyCase run, int timeouts) throws Exception {
        rounds(run, Math.min(timeouts, 100_000)).stop();
        System.gc();
        rounds(run, timeouts);
    }

    private static HashedWheelTimer rounds(NettyCase run, int timeouts) throws Exception {
        int batch = Math.max(1, Math.min(timeouts / 10, BATCH));
        int operations = run.of(OPERATIONS);
        int rounds = (operations + batch - 1) / batch;
        HashedWheelTimer timer = run.timer();
        timer.start();
        SplittableRandom random = new SplittableRandom(0);
        Timeout[] handles = new Timeout[timeouts];
        for (int i = 0; i < timeouts; i++) {
            handles[i] = timer.newTimeout(NettyCase.NOTHING, delay(random), TimeUnit.MICROSECONDS);
        }
        NettyCase.settle(timer);
        long cancelling = 0;
        long scheduling = 0;
        long resetting = 0;
        int refused = 0;
        int stretch = timeouts / batch;
        int[] places = new int[batch];
        int[] others = new int[batch];
        long[] delays = new long[batch];
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < batch; i++) {
                places[i] = i * stretch + random.nextInt(stretch);
                others[i] = random.nextInt(timeouts);
                delays[i] = delay(random);
            }
            shuffle(places, random);
            long since = System.nanoTime();
            for (int place : places) {
                refused += handles[place].cancel() ? 0 : 1;
            }
            long cancelled = System.nanoTime();
            for (int i = 0; i < batch; i++) {
                handles[places[i]] = timer.newTimeout(NettyCase.NOTHING, delays[i], TimeUnit.MICROSECONDS);
            }
            long scheduled = System.nanoTime();
            for (int place : others) {
                refused += handles[place].cancel() ? 0 : 1;
                handles[place] = timer.newTimeout(NettyCase.NOTHING, 120, TimeUnit.SECONDS);
            }
            resetting += System.nanoTime() - scheduled;
            cancelling += cancelled - since;
            scheduling += scheduled - cancelled;
        }
        if (refused > 0) {
            throw new IllegalStateException(refused + " were not cancelled, and none was due");
        }
        double all = (double) rounds * batch;
        run.metrics.put("schedule_ns", scheduling / all);
        run.metrics.put("cancel_ns", cancelling / all);
        run.metrics.put("reset_ns", resetting / all);
        run.metrics.put("pending", (double) timeouts);
        Waits.keep(handles);
        return timer;
    }

    private static long delay(SplittableRandom random) {
        return random.nextLong(60_000_000L, 120_000_000L);
    }

    private static void shuffle(int[] places, SplittableRandom random) {
        for (int i = places.length - 1; i > 0; i--) {
            int other = random.nextInt(i + 1);
            int place = places[i];
            places[i] = places[other];
            places[other] = place;
        }
    }

    static void producers(NettyCase run) throws Exception {
        int each = (run.of(TIMEOUTS) + run.producers - 1) / run.producers;
        // Once beforehand, for the compiler.
        races(run, Math.max(each / 4, 1));
        System.gc();
        races(run, each);
    }

    private static void races(NettyCase run, int each) throws Exception {
        HashedWheelTimer[] timers = {run.timer(), run.timer(), run.timer()};
        for (HashedWheelTimer timer : timers) {
            timer.start();
        }
        Loops.Lap scheduled = Loops.race(timers[0], run.producers, each, producer -> {
            long[] delays = Loops.delays(each, producer);
            Timeout[] handles = new Timeout[each];
            return () -> fill(timers[0], handles, delays);
        });
        timers[0].stop();
        Loops.Lap reset = Loops.race(timers[1], run.producers, each * RESETS, producer -> {
            Timeout[] handles = new Timeout[each];
            int[] order = filled(timers[1], handles, producer);
            return () -> {
                for (int turn = 0; turn < RESETS; turn++) {
                    for (int place : order) {
                        handles[place].cancel();
                        handles[place] = timers[1].newTimeout(NettyCase.NOTHING, 60, TimeUnit.SECONDS);
                    }
                }
            };
        });
        timers[1].stop();
        Loops.Lap cancelled = Loops.race(timers[2], run.producers, each, producer -> {
            Timeout[] handles = new Timeout[each];
            int[] order = filled(timers[2], handles, producer);
            return () -> {
                for (int place : order) {
                    if (!handles[place].cancel()) {
                        throw new IllegalStateException("one was not cancelled, and none was due");
                    }
                }
            };
        });
        timers[2].stop();
        run.metrics.put("schedule_mops", scheduled.millionsASecond);
        run.metrics.put("cancel_mops", cancelled.millionsASecond);
        run.metrics.put("reset_mops", reset.millionsASecond);
        run.metrics.put("schedule_ns", scheduled.nanos);
        run.metrics.put("cancel_ns", cancelled.nanos);
        run.metrics.put("reset_ns", reset.nanos);
    }

    private static void fill(HashedWheelTimer timer, Timeout[] handles, long[] delays) {
        for (int i = 0; i < handles.length; i++) {
            handles[i] = timer.newTimeout(NettyCase.NOTHING, delays[i], TimeUnit.MICROSECONDS);
        }
    }

    private static int[] filled(HashedWheelTimer timer, Timeout[] handles, int producer) throws InterruptedException {
        fill(timer, handles, Loops.delays(handles.length, producer));
        NettyCase.settle(timer);
        int[] order = new int[handles.length];
        for (int i = 0; i < order.length; i++) {
            order[i] = i;
        }
        shuffle(order, new SplittableRandom(producer));
        return order;
    }
}
