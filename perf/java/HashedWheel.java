import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.Version;
import java.util.concurrent.TimeUnit;

/** Netty's, with a tick of 1 ms, the shortest that it takes, and without leak detection. */
final class HashedWheel extends Peer {
    private static final String THREAD = "netty-timer";

    private final HashedWheelTimer timer;

    HashedWheel(int slots) {
        timer = new HashedWheelTimer(r -> {
            Thread thread = new Thread(r, THREAD);
            thread.setDaemon(true);
            return thread;
        }, 1, TimeUnit.MILLISECONDS, slots, false);
    }

    @Override
    void start() {
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
    String threads() {
        return THREAD;
    }

    @Override
    String version() {
        try {
            return "Netty " + Version.identify().values().stream()
                    .filter(version -> version.artifactId().equals("netty-common"))
                    .map(Version::artifactVersion).findFirst().orElse("of unknown version");
        } catch (RuntimeException unknown) {
            return "Netty of unknown version";
        }
    }
}
