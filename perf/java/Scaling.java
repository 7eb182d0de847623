import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;

/** W8: by the number pending, and by the number of producers. */
final class Scaling {
    private static final int OPERATIONS = 200_000;
    private static final int BATCH = 10_000;
    private static final int TIMEOUTS = 800_000;
    private static final int RESETS = 4;

    private Scaling() { }

    static void pending(TimerCase run, int timeouts) throws Exception {
        rounds(run, Math.min(timeouts, 100_000)).stop();
        System.gc();
        rounds(run, timeouts);
    }

    private static Peer rounds(TimerCase run, int timeouts) throws Exception {
        int batch = Math.max(1, Math.min(timeouts / 10, BATCH));
        int operations = run.of(OPERATIONS);
        int rounds = (operations + batch - 1) / batch;
        Peer timer = run.timer();
        timer.start();
        SplittableRandom random = new SplittableRandom(0);
        Object[] handles = new Object[timeouts];
        for (int i = 0; i < timeouts; i++) {
            handles[i] = timer.schedule(TimerCase.NOTHING, delay(random), TimeUnit.MICROSECONDS);
        }
        TimerCase.settle(timer);
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
                refused += timer.cancel(handles[place]) ? 0 : 1;
            }
            long cancelled = System.nanoTime();
            for (int i = 0; i < batch; i++) {
                handles[places[i]] = timer.schedule(TimerCase.NOTHING, delays[i], TimeUnit.MICROSECONDS);
            }
            long scheduled = System.nanoTime();
            for (int place : others) {
                refused += timer.cancel(handles[place]) ? 0 : 1;
                handles[place] = timer.schedule(TimerCase.NOTHING, 120, TimeUnit.SECONDS);
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

    static void producers(TimerCase run) throws Exception {
        int each = (run.of(TIMEOUTS) + run.producers - 1) / run.producers;
        // Once beforehand, for the compiler.
        races(run, Math.max(each / 4, 1));
        System.gc();
        races(run, each);
    }

    private static void races(TimerCase run, int each) throws Exception {
        Peer[] timers = {run.timer(), run.timer(), run.timer()};
        for (Peer timer : timers) {
            timer.start();
        }
        Loops.Lap scheduled = Loops.race(timers[0], run.producers, each, producer -> {
            long[] delays = Loops.delays(each, producer);
            Object[] handles = new Object[each];
            return () -> fill(timers[0], handles, delays);
        });
        timers[0].stop();
        Loops.Lap reset = Loops.race(timers[1], run.producers, each * RESETS, producer -> {
            Object[] handles = new Object[each];
            int[] order = filled(timers[1], handles, producer);
            return () -> {
                for (int turn = 0; turn < RESETS; turn++) {
                    for (int place : order) {
                        timers[1].cancel(handles[place]);
                        handles[place] = timers[1].schedule(TimerCase.NOTHING, 60, TimeUnit.SECONDS);
                    }
                }
            };
        });
        timers[1].stop();
        Loops.Lap cancelled = Loops.race(timers[2], run.producers, each, producer -> {
            Object[] handles = new Object[each];
            int[] order = filled(timers[2], handles, producer);
            return () -> {
                for (int place : order) {
                    if (!timers[2].cancel(handles[place])) {
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

    private static void fill(Peer timer, Object[] handles, long[] delays) {
        for (int i = 0; i < handles.length; i++) {
            handles[i] = timer.schedule(TimerCase.NOTHING, delays[i], TimeUnit.MICROSECONDS);
        }
    }

    private static int[] filled(Peer timer, Object[] handles, int producer) throws InterruptedException {
        fill(timer, handles, Loops.delays(handles.length, producer));
        TimerCase.settle(timer);
        int[] order = new int[handles.length];
        for (int i = 0; i < order.length; i++) {
            order[i] = i;
        }
        shuffle(order, new SplittableRandom(producer));
        return order;
    }
}
