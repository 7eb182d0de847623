import io.netty.util.Timeout;
import io.netty.util.TimerTask;

/** What is scheduled: one object that each of the timers takes as it is. */
interface Task extends Runnable, TimerTask {
    @Override
    default void run(Timeout timeout) {
        run();
    }
}
