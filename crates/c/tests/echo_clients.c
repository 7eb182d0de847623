/*
 * Clients for the echo server: most send again and again, and some fall silent.
 *
 *   echo_clients --port N --connections N --silent N --idle-ms N --for-ms N
 *
 * Each connection sends a message of its own and waits for its echo. The silent ones stop after the
 * first echo; the server has to close each of them, and not before the idle time. The others send
 * again a quarter of the idle time after each echo; the server must not close them. If all are
 * silent no echo is needed: to an HTTP server the message is a request that never ends.
 *
 * The exit code is 0 if all of this was so.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* One address has some 28,000 ports, and others may need some of them. */
enum { PER_ADDRESS = 8000, EVENTS = 512, MESSAGE = 64 };

struct client {
    int fd;
    bool is_silent, is_connected, awaits_echo, was_answered;
    size_t echoed;
    uint64_t sent_ns, before_ns, send_next_ns;
    char message[MESSAGE];
};

struct totals {
    size_t echoes, closed, early, wrong, late, refused;
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t option(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return strtoull(argv[i + 1], NULL, 10);
        }
    }
    fprintf(stderr, "echo_clients: %s is missing\n", name);
    exit(2);
}

static void connect_from(int epoll, struct client *client, size_t index, unsigned port) {
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    struct sockaddr_in from = {.sin_family = AF_INET};
    from.sin_addr.s_addr = htonl(0x7f000001 + (uint32_t)(index / PER_ADDRESS));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(0x7f000001);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = client};
    if (client->fd < 0 || setsockopt(client->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) != 0 ||
        bind(client->fd, (struct sockaddr *)&from, sizeof from) != 0 ||
        (connect(client->fd, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event) != 0) {
        fail("connect");
    }
}

static void send_message(struct client *client) {
    /* Before the message is sent: the server counts from later. */
    client->before_ns = client->sent_ns;
    client->sent_ns = now_ns();
    if (send(client->fd, client->message, MESSAGE, MSG_NOSIGNAL) == MESSAGE) {
        client->awaits_echo = true;
        client->echoed = 0;
    }
}

static void end(struct client *client) {
    close(client->fd);
    client->fd = -1;
}

/* Reads all that has come. */
static void receive(struct client *client, uint64_t idle_ns, struct totals *totals) {
    char came[MESSAGE];
    while (client->fd >= 0) {
        ssize_t len = recv(client->fd, came, sizeof came, 0);
        if (len < 0 && errno == EAGAIN) {
            return;
        }
        if (len > 0) {
            if (!client->awaits_echo || client->echoed + (size_t)len > MESSAGE ||
                memcmp(came, client->message + client->echoed, (size_t)len) != 0) {
                totals->wrong++;
                end(client);
                return;
            }
            client->echoed += (size_t)len;
            if (client->echoed == MESSAGE) {
                client->awaits_echo = false;
                client->was_answered = true;
                client->send_next_ns = now_ns() + idle_ns / 4;
                totals->echoes++;
            }
            continue;
        }
        if (!client->is_connected) {
            totals->refused++;
        } else if (client->awaits_echo && client->before_ns != 0 && client->sent_ns - client->before_ns >= idle_ns) {
            totals->late++; /* this program was too slow: the server may have closed before the message came */
        } else if (now_ns() - client->sent_ns < idle_ns) {
            totals->early++;
        } else if (client->is_silent) {
            totals->closed++;
        } else {
            totals->late++;
        }
        end(client);
    }
}

int main(int argc, char **argv) {
    size_t count = option(argc, argv, "--connections"), silent = option(argc, argv, "--silent");
    unsigned port = (unsigned)option(argc, argv, "--port");
    uint64_t idle_ns = option(argc, argv, "--idle-ms") * 1000000, for_ns = option(argc, argv, "--for-ms") * 1000000;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct client *clients = calloc(count, sizeof *clients);
    if (epoll < 0 || clients == NULL) {
        fail("begin");
    }
    struct totals totals = {0};
    uint64_t begin_ns = now_ns(), end_ns = begin_ns + for_ns;
    size_t connecting = 0, silent_left = silent, unanswered = count;
    bool is_over = false;
    /* A silent connection that is not closed within this time after the end fails the test. So does
       one that is not answered. */
    uint64_t patience_ns = idle_ns + 20000000000;
    while (!is_over || silent_left != 0) {
        for (size_t some = 0; connecting < count && some < 200; some++, connecting++) {
            struct client *client = &clients[connecting];
            client->is_silent = connecting < silent;
            memset(client->message, '.', MESSAGE);
            snprintf(client->message, MESSAGE, "client %zu", connecting);
            connect_from(epoll, client, connecting, port);
        }
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, connecting < count ? 0 : 10);
        for (int i = 0; i < ready; i++) {
            struct client *client = events[i].data.ptr;
            if ((events[i].events & EPOLLOUT) && !client->is_connected && !(events[i].events & EPOLLERR)) {
                client->is_connected = true;
                send_message(client);
            }
            receive(client, idle_ns, &totals);
        }
        uint64_t now = now_ns();
        /* On a busy machine the server may not have accepted all by then. */
        is_over = connecting == count && now >= end_ns && unanswered == 0;
        silent_left = connecting == count ? 0 : 1;
        unanswered = 0;
        for (size_t i = 0; i < connecting; i++) {
            struct client *client = &clients[i];
            unanswered += client->fd >= 0 && !client->is_silent && !client->was_answered;
            if (client->fd >= 0 && client->is_silent) {
                silent_left++;
            } else if (client->fd >= 0 && client->is_connected && !client->awaits_echo && !is_over &&
                       now >= client->send_next_ns) {
                send_message(client);
            }
        }
        if (now - begin_ns > for_ns + patience_ns) {
            fprintf(stderr, "echo_clients: %zu silent connections were not closed, and %zu not answered\n", silent_left, unanswered);
            return 1;
        }
    }
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (clients[i].fd >= 0) {
            left++;
            end(&clients[i]);
        }
    }
    printf("{\"connections\": %zu, \"echoes\": %zu, \"closed_idle\": %zu, \"closed_early\": %zu, \"wrong\": %zu, "
           "\"refused\": %zu, \"late_clients\": %zu, \"open_at_the_end\": %zu}\n",
           count, totals.echoes, totals.closed, totals.early, totals.wrong, totals.refused, totals.late, left);
    free(clients);
    close(epoll);
    return totals.early == 0 && totals.wrong == 0 && totals.refused == 0 && totals.closed == silent &&
                   left + totals.late == count - silent && (silent == count || totals.echoes >= count)
               ? 0
               : 1;
}
