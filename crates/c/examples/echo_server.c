/*
 * An echo server that closes connections which send nothing for a while.
 *
 *   echo_server [--port N] [--idle-ms N] [--http]
 *
 * One thread owns the sockets, the timeouts and the time. Each connection has one timeout, which
 * every read moves. The loop asks the engine how long it may sleep, and turns it once a round. With
 * --http it answers each request with a fixed response instead of an echo. SIGTERM and SIGINT end
 * it; then it prints what it has counted, and checks that nothing is left.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <tourbillon.h>
#include <unistd.h>

enum { EVENTS = 512, BUFFER = 1024 };

static const char RESPONSE[] =
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\ntick\n";

struct server;

struct connection {
    int fd;
    tourbillon_timeout *idle;
    struct server *server;
    struct connection *next, **link; /* in the server's list */
    unsigned end_of_head;            /* how much of "\r\n\r\n" has come */
    size_t responses;                /* that are not sent yet */
    size_t begin, end;               /* what is not sent yet, in `buffer` */
    bool waits_to_write;
    char buffer[BUFFER];
};

struct server {
    int epoll, listener, signals;
    bool is_http, ends;
    uint64_t idle_ns, now_ns;
    tourbillon_timer *timer;
    tourbillon_driver *driver;
    struct connection *connections;
    size_t accepted, closed_idle, closed_by_peer, bytes, panics;
};

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void check(tourbillon_status status, const char *what) {
    if (status != TOURBILLON_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, tourbillon_error_message(status));
        exit(1);
    }
}

#ifdef WITH_PANICS
/* A callback written in Rust that panics. The library has it if it was built for this test. */
void tourbillon_test_panic(void *data);

static void schedule_a_panic(struct server *server) {
    if (server->accepted % 100 == 0) {
        uint64_t delay_ns = server->accepted * 100000;
        check(tourbillon_schedule(server->timer, delay_ns, tourbillon_test_panic, NULL, NULL, NULL), "schedule");
        server->panics++;
    }
}
#else
static void schedule_a_panic(struct server *server) {
    (void)server;
}
#endif

static void forget(struct connection *connection) {
    *connection->link = connection->next;
    if (connection->next != NULL) {
        connection->next->link = connection->link;
    }
    close(connection->fd);
    free(connection);
}

/* The callback of the idle timeout. It runs in `tourbillon_turn`, and owns the connection. */
static void on_idle(void *data) {
    struct connection *connection = data;
    connection->server->closed_idle++;
    tourbillon_release(connection->idle);
    forget(connection);
}

static void close_connection(struct connection *connection) {
    connection->server->closed_by_peer++;
    /* The callback never runs after this: it would run on this thread. */
    check(tourbillon_cancel_and_release(connection->idle), "cancel");
    forget(connection);
}

static void accept_all(struct server *server) {
    for (;;) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            if (errno == EAGAIN) {
                return;
            }
            fail("accept");
        }
        struct connection *connection = calloc(1, sizeof *connection);
        if (connection == NULL) {
            fail("calloc");
        }
        connection->fd = fd;
        connection->server = server;
        connection->next = server->connections;
        connection->link = &server->connections;
        if (connection->next != NULL) {
            connection->next->link = &connection->next;
        }
        server->connections = connection;
        server->accepted++;
        check(tourbillon_schedule_at(server->timer, server->now_ns + server->idle_ns, on_idle, connection, NULL,
                                     &connection->idle),
              "schedule");
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
            fail("epoll_ctl");
        }
        schedule_a_panic(server);
    }
}

static void wait_for(struct connection *connection, bool to_write) {
    if (connection->waits_to_write != to_write) {
        struct epoll_event event = {.events = to_write ? EPOLLOUT : EPOLLIN, .data.ptr = connection};
        if (epoll_ctl(connection->server->epoll, EPOLL_CTL_MOD, connection->fd, &event) != 0) {
            fail("epoll_ctl");
        }
        connection->waits_to_write = to_write;
    }
}

/* Sends what waits. Returns false if the connection is broken. */
static bool flush(struct connection *connection) {
    for (;;) {
        if (connection->begin == connection->end) {
            if (connection->responses == 0) {
                wait_for(connection, false);
                return true;
            }
            connection->responses--;
            connection->begin = 0;
            connection->end = sizeof RESPONSE - 1;
            memcpy(connection->buffer, RESPONSE, connection->end);
        }
        ssize_t sent = send(connection->fd, connection->buffer + connection->begin,
                            connection->end - connection->begin, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && errno == EAGAIN) {
            wait_for(connection, true);
            return true;
        }
        if (sent < 0) {
            return false;
        }
        connection->begin += (size_t)sent;
        connection->server->bytes += (size_t)sent;
    }
}

/* Counts the ends of request heads. The requests that this server answers have no bodies. */
static size_t requests_in(struct connection *connection, size_t len) {
    size_t requests = 0;
    for (size_t i = 0; i < len; i++) {
        char c = connection->buffer[i];
        unsigned seen = connection->end_of_head;
        seen = c == "\r\n\r\n"[seen] ? seen + 1 : c == '\r';
        requests += seen == 4;
        connection->end_of_head = seen % 4;
    }
    return requests;
}

static void serve(struct connection *connection, uint32_t events) {
    struct server *server = connection->server;
    if (events & EPOLLIN) {
        ssize_t len = recv(connection->fd, connection->buffer, BUFFER, 0);
        if (len < 0 && (errno == EINTR || errno == EAGAIN)) {
            return;
        }
        if (len <= 0) {
            close_connection(connection);
            return;
        }
        /* One reading of the clock serves all connections of this round. */
        check(tourbillon_reset_at(server->timer, connection->idle, server->now_ns + server->idle_ns), "reset");
        connection->begin = 0;
        connection->end = server->is_http ? 0 : (size_t)len;
        connection->responses += server->is_http ? requests_in(connection, (size_t)len) : 0;
    }
    if (events & (EPOLLERR | EPOLLHUP) || !flush(connection)) {
        close_connection(connection);
    }
}

static void run(struct server *server) {
    struct epoll_event events[EVENTS];
    while (!server->ends) {
        int count = epoll_wait(server->epoll, events, EVENTS, tourbillon_next_wakeup_ms(server->driver));
        if (count < 0 && errno != EINTR) {
            fail("epoll_wait");
        }
        server->now_ns = tourbillon_now_ns(server->timer);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &server->listener) {
                accept_all(server);
            } else if (events[i].data.ptr == &server->signals) {
                server->ends = true;
            } else {
                serve(events[i].data.ptr, events[i].events);
            }
        }
        /* The last step of a round: what it closes has no event left in `events`. */
        check(tourbillon_turn(server->driver, NULL), "turn");
    }
}

static void watch(struct server *server, int fd, void *data) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};
    if (fd < 0 || epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        fail("epoll_ctl");
    }
}

static void begin(struct server *server, unsigned port) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    check(tourbillon_timer_new_driven(NULL, &server->timer, &server->driver), "a new engine");
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof address;
    if (setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(server->listener, (struct sockaddr *)&address, len) != 0 || listen(server->listener, 4096) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &len) != 0) {
        fail("listen");
    }
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    server->signals = signalfd(-1, &ends, SFD_CLOEXEC);
    watch(server, server->listener, &server->listener);
    watch(server, server->signals, &server->signals);
    printf("port %u\n", (unsigned)ntohs(address.sin_port));
    fflush(stdout);
}

/* Prints what was counted. Returns whether the engine's counters agree with the server's. */
static bool report(struct server *server) {
    tourbillon_stats stats = {.size = sizeof stats};
    check(tourbillon_stats_get(server->timer, &stats), "stats");
    printf("{\"accepted\": %zu, \"closed_idle\": %zu, \"closed_by_peer\": %zu, \"bytes\": %zu, \"resets\": %llu, "
           "\"panics\": %llu, \"pending\": %llu}\n",
           server->accepted, server->closed_idle, server->closed_by_peer, server->bytes,
           (unsigned long long)stats.reset, (unsigned long long)stats.panicked, (unsigned long long)stats.pending);
    return stats.pending == 0 && stats.panicked == server->panics &&
           stats.fired == server->closed_idle + server->panics && stats.cancelled == server->closed_by_peer &&
           server->accepted == server->closed_idle + server->closed_by_peer;
}

int main(int argc, char **argv) {
    struct server server = {.idle_ns = 30000000000};
    unsigned port = 7000;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--http") == 0) {
            server.is_http = true;
        } else if (strcmp(argv[i], "--port") == 0 && i + 1 < argc) {
            port = (unsigned)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--idle-ms") == 0 && i + 1 < argc) {
            server.idle_ns = strtoull(argv[++i], NULL, 10) * 1000000;
        } else {
            fprintf(stderr, "usage: %s [--port N] [--idle-ms N] [--http]\n", argv[0]);
            return 2;
        }
    }
    begin(&server, port);
    run(&server);
    while (server.connections != NULL) {
        close_connection(server.connections);
    }
    /* A timeout without a handle may still be pending: only the test has those. */
    while (tourbillon_pending(server.timer) != 0) {
        usleep((useconds_t)tourbillon_next_wakeup_ms(server.driver) * 1000);
        check(tourbillon_turn(server.driver, NULL), "turn");
    }
    bool agrees = report(&server);
    check(tourbillon_driver_free(server.driver), "free");
    tourbillon_timer_free(server.timer);
    close(server.epoll);
    close(server.listener);
    close(server.signals);
    return agrees ? 0 : 1;
}
