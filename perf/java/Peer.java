import java.util.concurrent.TimeUnit;

/** A timer under test. A process uses only one class of them, so its calls are inlined. */
abstract class Peer {
    /** Starts its threads, if they don't start by themselves. */
    abstract void start();

    /** Returns what {@link #cancel} takes. */
    abstract Object schedule(Task task, long delay, TimeUnit unit);

    /** None of them has a reset: it is a cancel and a new timeout. */
    abstract boolean cancel(Object handle);

    /** Ends its threads, and lets go of what is pending. */
    abstract void stop();

    /** What the names of its threads start with; Linux keeps 15 bytes. */
    abstract String threads();

    /** For the reader of a result. */
    abstract String version();
}
