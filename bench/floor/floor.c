//go:build ignore

// floor is what HTTP over loopback costs when nothing is thought about.
//
//   floor be PORT                   backend: answers GET /N with a body of N bytes
//   floor px PORT BACKEND [close]   relay: recv, send, recv, send and epoll, no parsing
//
// Both are one thread and one level-triggered epoll instance. The relay has one
// backend connection for each client connection; it is the least that a proxy in
// user space can do, and so the limit that the benchmark quotes. With "close" it
// ends a client connection after one answer, which it takes to come in one piece.
// A backend connection outlives its client and serves the next one.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
  MAX_FD = 65536,
  EVENTS = 256,
  RELAY_BYTES = 64 << 10, // one read of the relay
  HEAD_BYTES = 4096,      // longest request head that the backend takes
  BODY_BYTES = 256 << 10, // bodies repeat this block, which stays in the cache
};

static int ep;

static void die(const char *what) {
  perror(what);
  exit(1);
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

static void no_delay(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static int listen_on(int port) {
  int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct sockaddr_in a = loopback(port);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4096)) die("listen");
  return fd;
}

static void watch(int op, int fd, unsigned events) {
  struct epoll_event e = {.events = events, .data.fd = fd};
  epoll_ctl(ep, op, fd, &e);
}

static int accept_one(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
  if (fd >= MAX_FD) close(fd), fd = -1;
  if (fd >= 0) no_delay(fd);
  return fd;
}

// ---- backend ----

// answer is one connection of the backend: the head being read, then the body
// that is still to be sent.
struct answer {
  char head[HEAD_BYTES];
  size_t used;
  size_t left;
};

static struct answer *answers[MAX_FD];
static char body[BODY_BYTES];

static void answer_close(int fd) {
  free(answers[fd]);
  answers[fd] = NULL;
  close(fd);
}

// push sends the rest of a body and waits for room when the socket is full.
static void push(int fd) {
  struct answer *a = answers[fd];
  while (a->left > 0) {
    ssize_t n = send(fd, body, a->left < BODY_BYTES ? a->left : BODY_BYTES, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) return watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
    if (n < 0) return answer_close(fd);
    a->left -= n;
  }
  watch(EPOLL_CTL_MOD, fd, EPOLLIN);
}

// respond sends the head and as much of the body as goes with it in one call.
static void respond(int fd, size_t size) {
  static char head[512];
  static size_t built = -1, length;
  if (size != built) {
    built = size;
    length = snprintf(head, sizeof head,
                      "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\n"
                      "Content-Type: text/plain\r\nContent-Length: %zu\r\n\r\n", size);
  }
  struct iovec parts[2] = {{head, length}, {body, size < BODY_BYTES ? size : BODY_BYTES}};
  struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
  ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
  if (n < (ssize_t)length) return answer_close(fd);
  answers[fd]->left = length + size - n;
  if (answers[fd]->left > 0) push(fd);
}

// requested is the N of "GET /N …".
static size_t requested(const char *head) {
  return strncmp(head, "GET /", 5) ? 0 : strtoul(head + 5, NULL, 10);
}

static void serve(int fd) {
  struct answer *a = answers[fd];
  ssize_t n = recv(fd, a->head + a->used, HEAD_BYTES - 1 - a->used, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return answer_close(fd);
  a->used += n;
  a->head[a->used] = 0;
  if (!memmem(a->head, a->used, "\r\n\r\n", 4)) {
    if (a->used == HEAD_BYTES - 1) answer_close(fd);
    return;
  }
  a->used = 0; // proxies do not pipeline, and a GET has no body
  respond(fd, requested(a->head));
}

static void backend_accept(int listener) {
  for (int fd; (fd = accept_one(listener)) >= 0;) {
    answers[fd] = calloc(1, sizeof *answers[fd]);
    watch(EPOLL_CTL_ADD, fd, EPOLLIN);
  }
}

static void backend_event(int fd, unsigned events) {
  if (!answers[fd]) return;
  if (answers[fd]->left > 0)
    push(fd);
  else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
    serve(fd);
}

// ---- relay ----

// end is one side of a relayed pair.
struct end {
  int peer;       // the other side; -1: a backend connection at rest
  int backend;    // 1: this side is the backend
  char *held;     // bytes that this side could not take yet
  size_t at, len; // what is left of them
};

static struct end ends[MAX_FD];
static int rest[MAX_FD], resting; // backend connections without a client
static int backend_port, close_after;

static int backend_take(void) {
  if (resting > 0) return rest[--resting];
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = loopback(backend_port);
  if (connect(fd, (void *)&a, sizeof a)) die("connect");
  no_delay(fd);
  ends[fd] = (struct end){.peer = -1, .backend = 1};
  watch(EPOLL_CTL_ADD, fd, EPOLLIN);
  return fd;
}

static void end_close(int fd) {
  free(ends[fd].held);
  ends[fd] = (struct end){.peer = -1};
  close(fd);
}

// part ends a pair. The backend connection is kept unless an answer was cut short.
static void part(int fd, int broken) {
  int client = ends[fd].backend ? ends[fd].peer : fd;
  int backend = ends[fd].backend ? fd : ends[fd].peer;
  if (client >= 0) end_close(client);
  if (backend < 0) return;
  if (broken) return end_close(backend);
  ends[backend].peer = -1;
  rest[resting++] = backend;
}

static void relay_accept(int listener) {
  for (int fd; (fd = accept_one(listener)) >= 0;) {
    int b = backend_take();
    ends[fd] = (struct end){.peer = b};
    ends[b].peer = fd;
    watch(EPOLL_CTL_ADD, fd, EPOLLIN);
  }
}

// hold keeps what the other side could not take, and stops reading until it can.
static void hold(int from, int to, const char *data, size_t n) {
  struct end *e = &ends[to];
  e->held = malloc(n);
  memcpy(e->held, data, n);
  e->at = 0, e->len = n;
  watch(EPOLL_CTL_MOD, from, 0);
  watch(EPOLL_CTL_MOD, to, EPOLLOUT);
}

static void flush(int fd) {
  struct end *e = &ends[fd];
  ssize_t n = send(fd, e->held + e->at, e->len, MSG_NOSIGNAL);
  if (n < 0 && errno == EAGAIN) return;
  if (n < 0) return part(fd, 1);
  e->at += n, e->len -= n;
  if (e->len > 0) return;
  free(e->held);
  e->held = NULL;
  watch(EPOLL_CTL_MOD, fd, EPOLLIN);
  watch(EPOLL_CTL_MOD, e->peer, EPOLLIN);
}

static void drop_resting(int fd) {
  for (int i = 0; i < resting; i++)
    if (rest[i] == fd) rest[i] = rest[--resting];
  end_close(fd);
}

static void relay(int fd) {
  static char buf[RELAY_BYTES];
  int to = ends[fd].peer;
  ssize_t n = recv(fd, buf, sizeof buf, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (to < 0) return drop_resting(fd);
  if (n <= 0 || ends[to].held) return part(fd, 1); // held: woken by a hang-up, not by data
  ssize_t sent = send(to, buf, n, MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) return part(fd, 1);
  if (sent < 0) sent = 0;
  if (sent < n) return hold(fd, to, buf + sent, n - sent);
  if (close_after && ends[fd].backend) part(fd, 0);
}

static void relay_event(int fd, unsigned events) {
  if (ends[fd].held && events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) return flush(fd);
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) relay(fd);
}

int main(int argc, char **argv) {
  int relaying = argc >= 4 && !strcmp(argv[1], "px");
  if (!relaying && !(argc == 3 && !strcmp(argv[1], "be"))) {
    fprintf(stderr, "usage: floor be PORT | floor px PORT BACKEND [close]\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  memset(body, 'x', sizeof body);
  if (relaying) backend_port = atoi(argv[3]);
  close_after = argc == 5 && !strcmp(argv[4], "close");
  ep = epoll_create1(0);
  int listener = listen_on(atoi(argv[2]));
  watch(EPOLL_CTL_ADD, listener, EPOLLIN);
  for (struct epoll_event ev[EVENTS];;) {
    int n = epoll_wait(ep, ev, EVENTS, -1);
    for (int i = 0; i < n; i++) {
      int fd = ev[i].data.fd;
      if (fd == listener)
        relaying ? relay_accept(listener) : backend_accept(listener);
      else
        relaying ? relay_event(fd, ev[i].events) : backend_event(fd, ev[i].events);
    }
  }
}
