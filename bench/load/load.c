//go:build ignore

// load asks one HTTP/1.1 server on loopback for one target, as cheaply as it can.
//
//   load closed PORT CONNS TARGET WARM_MS RUN_MS keep|close|full|resumed
//   load open   PORT CONNS TARGET WARM_MS RUN_MS RATE
//   load idle   PORT CONNS TARGET
//
// closed: each connection sends its next request when the last is answered; with
// "close" each request has a new connection, which the server ends. "full" and
// "resumed" ask nothing: a connection is a TLS handshake, counts as a request, and is
// ended by both; "resumed" begins with the ticket of a connection before all others.
// open: requests are due at random times (Poisson, always the same ones) at RATE
// per second. One that finds no free connection waits, and its latency counts from
// the time it was due, so a stall of the server cannot hide (coordinated omission).
// idle: opens CONNS connections, one request each, and holds them until its standard
// input ends.
//
// It prints "begin" when measuring starts (idle: when all are open), then one line
// of JSON. A latency bucket is [its greatest value in ns, count]; 128 buckets for
// each doubling, so a value is known to 0.8 %.
//
// Compiled with -DTLS it speaks TLS 1.3 by OpenSSL, with the one cipher and the one
// group that CIPHER and GROUP name, and asks for the server HOST. It does not ask whose
// certificate it is given.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

enum {
  EVENTS = 256,
  HEAD_BYTES = 8192,       // longest response head that is read
  DRAIN_BYTES = 4 << 20,   // body bytes thrown away by one call
  SUB_BITS = 7,            // 128 buckets per doubling
  BUCKETS = 64 << SUB_BITS,
  BACKLOG = 1 << 20,       // requests that may be overdue
  STALL_MS = 5000,         // no answer for this long ends the run
  RECORDS_BYTES = 64 << 10, // TLS records that are taken from the socket at once
  OPENING = 16,            // idle connections that are opened at once
};

enum phase { FREE, HEAD, BODY, ENDING }; // ENDING: answered, waiting for the server's close

struct conn {
  int fd;
  int unsent;       // the request waits for the handshake
#ifdef TLS
  SSL *ssl;
#endif
  enum phase phase;
  int closing;      // the response said Connection: close
  uint64_t due;     // when the request should have been sent, ns
  int64_t left;     // body bytes still to come
  size_t used;
  char head[HEAD_BYTES];
};

static struct {
  uint64_t requests, errors, bytes, reconnects, unfinished;
  uint64_t bucket[BUCKETS];
} sum;

static struct conn *conns;
static int ep, port, count, per_request;
static int handshakes, resuming; // a connection is a handshake only; it begins with a ticket
static char request[1024];
static size_t request_len;
static uint64_t begin_at, end_at; // the measured time; begin_at is also in the past while warming up
static int measuring;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

// ---- histogram ----

static int bucket_of(uint64_t ns) {
  if (ns < 1u << SUB_BITS) return ns;
  int shift = 63 - __builtin_clzll(ns) - SUB_BITS;
  return ((shift + 1) << SUB_BITS) + (int)((ns >> shift) - (1u << SUB_BITS));
}

static uint64_t bucket_top(int i) {
  if (i < 1 << SUB_BITS) return i;
  int shift = (i >> SUB_BITS) - 1;
  uint64_t low = (uint64_t)((i & ((1 << SUB_BITS) - 1)) + (1 << SUB_BITS)) << shift;
  return low + (1ull << shift) - 1;
}

static void report(uint64_t elapsed) {
  printf("{\"requests\":%lu,\"errors\":%lu,\"bytes\":%lu,\"reconnects\":%lu,\"unfinished\":%lu,\"elapsed_ns\":%lu,\"latency\":[",
         sum.requests, sum.errors, sum.bytes, sum.reconnects, sum.unfinished, elapsed);
  const char *comma = "";
  for (int i = 0; i < BUCKETS; i++) {
    if (!sum.bucket[i]) continue;
    printf("%s[%lu,%lu]", comma, bucket_top(i), sum.bucket[i]);
    comma = ",";
  }
  printf("]}\n");
  fflush(stdout);
}

// ---- the wire: how bytes go and come, without TLS and with it ----
//
// wire_ask sends the request: 1 sent, 0 more must come first, -1 a fault.
// wire_read reads as recv(2) does, and wire_skip throws away what it reads.
// wire_quiet says whether a connection is open, with nothing to read.
// wire_ended waits for the server's end: 1 it has come, 0 not yet, -1 something else.

#ifndef TLS

static void wire_set_up(int holding) {
  (void)holding;
  if (handshakes) {
    fprintf(stderr, "handshakes are for the program with TLS\n");
    exit(2);
  }
}

static void wire_open(struct conn *c) { (void)c; }
static void wire_close(struct conn *c) { (void)c; }

static int wire_ask(struct conn *c) {
  return send(c->fd, request, request_len, MSG_NOSIGNAL) == (ssize_t)request_len ? 1 : -1;
}

static ssize_t wire_read(struct conn *c, char *to, size_t n) { return recv(c->fd, to, n, 0); }

// wire_skip copies nothing (MSG_TRUNC, tcp(7)).
static ssize_t wire_skip(struct conn *c, size_t n) { return recv(c->fd, NULL, n, MSG_TRUNC); }

static int wire_quiet(struct conn *c) {
  char byte;
  return recv(c->fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

static int wire_ended(struct conn *c) {
  char byte;
  ssize_t n = recv(c->fd, &byte, 1, 0);
  if (n < 0 && errno == EAGAIN) return 0;
  return n == 0 ? 1 : -1;
}

#else

static int dial(void);
static SSL_CTX *tls;
static SSL_SESSION *ticket; // of the first connection, if resuming

static void tls_die(const char *what) {
  fprintf(stderr, "%s: ", what);
  ERR_print_errors_fp(stderr);
  exit(1);
}

static void wire_open(struct conn *c) {
  c->ssl = SSL_new(tls);
  if (!c->ssl || !SSL_set_fd(c->ssl, c->fd) || !SSL_set_tlsext_host_name(c->ssl, HOST)) tls_die("connection");
  if (ticket && !SSL_set_session(c->ssl, ticket)) tls_die("session");
  SSL_set_connect_state(c->ssl);
}

// wire_close frees a connection. One that seems to be cut off would make its ticket void
// (SSL_SESSION_free(3)).
static void wire_close(struct conn *c) {
  SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  SSL_free(c->ssl);
}

// fault_of is what a call that did not succeed means, in the manner of recv(2).
static ssize_t fault_of(struct conn *c, int result) {
  int why = SSL_get_error(c->ssl, result);
  ERR_clear_error();
  errno = why == SSL_ERROR_WANT_READ ? EAGAIN : EIO;
  return why == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

// wire_ask shakes hands too, as far as what has come allows. Where the handshake is all,
// it says then that nothing will follow.
static int wire_ask(struct conn *c) {
  int n = handshakes ? SSL_do_handshake(c->ssl) : SSL_write(c->ssl, request, request_len);
  if (n <= 0) return fault_of(c, n) < 0 && errno == EAGAIN ? 0 : -1;
  if (!handshakes) return 1;
  if (SSL_session_reused(c->ssl) != resuming) {
    fprintf(stderr, resuming ? "the server resumes no session\n" : "a session was resumed that was not offered\n");
    exit(1);
  }
  SSL_shutdown(c->ssl);
  return shutdown(c->fd, SHUT_WR) ? -1 : 1;
}

static ssize_t wire_read(struct conn *c, char *to, size_t n) {
  int got = SSL_read(c->ssl, to, n);
  return got > 0 ? got : fault_of(c, got);
}

// wire_skip goes on until nothing is left in OpenSSL, which epoll does not see.
static ssize_t wire_skip(struct conn *c, size_t n) {
  static char nowhere[RECORDS_BYTES];
  ssize_t sum = 0, got = 0;
  while ((size_t)sum < n && (got = wire_read(c, nowhere, n - sum < sizeof nowhere ? n - sum : sizeof nowhere)) > 0) sum += got;
  return sum > 0 ? sum : got;
}

// wire_quiet takes in tickets that came late.
static int wire_quiet(struct conn *c) {
  char byte;
  int got = SSL_peek(c->ssl, &byte, 1);
  return got <= 0 && fault_of(c, got) < 0 && errno == EAGAIN;
}

// wire_ended throws tickets and the server's goodbye away, as they come.
static int wire_ended(struct conn *c) {
  char bytes[HEAD_BYTES];
  ssize_t n;
  while ((n = recv(c->fd, bytes, sizeof bytes, 0)) > 0) continue;
  if (n < 0 && errno == EAGAIN) return 0;
  return n == 0 ? 1 : -1;
}

static int keep_ticket(SSL *ssl, SSL_SESSION *session) {
  (void)ssl;
  SSL_SESSION_free(ticket);
  ticket = session;
  return 1;
}

// get_ticket asks once over a connection of its own, and waits for the server's end.
static void get_ticket(void) {
  struct conn first = {.fd = dial()};
  struct timeval stall = {.tv_sec = STALL_MS / 1000};
  char answer[HEAD_BYTES];
  setsockopt(first.fd, SOL_SOCKET, SO_RCVTIMEO, &stall, sizeof stall);
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(tls, keep_ticket);
  wire_open(&first);
  if (SSL_write(first.ssl, request, request_len) <= 0) tls_die("handshake for a ticket");
  while (SSL_read(first.ssl, answer, sizeof answer) > 0) continue;
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
  wire_close(&first);
  close(first.fd);
  if (!ticket) tls_die("the server gave no ticket");
}

// wire_set_up reads many records at once; connections that are held keep no buffer for that.
static void wire_set_up(int holding) {
  static const unsigned char alpn[] = "\x08http/1.1";
  tls = SSL_CTX_new(TLS_client_method());
  if (!tls || !SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) || !SSL_CTX_set_ciphersuites(tls, CIPHER) ||
      !SSL_CTX_set1_groups_list(tls, GROUP) || SSL_CTX_set_alpn_protos(tls, alpn, sizeof alpn - 1))
    tls_die("TLS");
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
  if (holding) SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(tls, 1);
  SSL_CTX_set_default_read_buffer_len(tls, RECORDS_BYTES);
  if (resuming) get_ticket();
}

#endif

// ---- one connection ----

// dial connects, waiting: on loopback the kernel answers, not the server.
static int dial(void) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0) die("socket");
  if (connect(fd, (void *)&a, sizeof a)) die("connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

static void conn_open(struct conn *c) {
  c->fd = dial();
  c->phase = FREE, c->used = 0, c->closing = 0, c->unsent = 0;
  wire_open(c);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
}

static void conn_reopen(struct conn *c) {
  wire_close(c);
  close(c->fd);
  conn_open(c);
}

// conn_send sends the request, or what must come before it: 1 once it is sent, 0 for
// more to come, -1 for a fault.
static int conn_send(struct conn *c) {
  int r = wire_ask(c);
  c->unsent = r == 0;
  if (r > 0 && handshakes) c->phase = ENDING;
  return r;
}

static void conn_ask(struct conn *c, uint64_t due) {
  c->due = due, c->phase = HEAD, c->used = 0;
  if (conn_send(c) < 0) sum.errors++;
}

// parse reads a whole head: the body's length, or -1 if the answer is not what
// was asked for.
static int64_t parse(struct conn *c, const char *end) {
  if (strncmp(c->head, "HTTP/1.1 200", 12)) return -1;
  int64_t length = -1;
  for (const char *p = c->head; p < end;) {
    const char *eol = memchr(p, '\n', end - p + 2);
    p = eol + 1;
    if ((*p | 32) != 'c') continue;
    if (!strncasecmp(p, "content-length:", 15)) length = strtoll(p + 15, NULL, 10);
    if (!strncasecmp(p, "connection: close", 17)) c->closing = 1;
  }
  return length;
}

// read_head takes what has come: 1 once the head is whole, 0 for more to come, -1 for a fault.
static int read_head(struct conn *c) {
  ssize_t n = wire_read(c, c->head + c->used, HEAD_BYTES - 1 - c->used);
  if (n < 0 && errno == EAGAIN) return 0;
  if (n <= 0) return -1;
  c->used += n;
  c->head[c->used] = 0;
  char *end = memmem(c->head, c->used, "\r\n\r\n", 4);
  if (!end) return c->used == HEAD_BYTES - 1 ? -1 : 0;
  int64_t length = parse(c, end);
  int64_t came = c->used - (end + 4 - c->head);
  if (length < came) return -1;
  if (measuring) sum.bytes += came;
  c->left = length - came;
  c->phase = BODY;
  return 1;
}

// read_body throws a body away.
static int read_body(struct conn *c) {
  if (c->left == 0) return 1;
  ssize_t n = wire_skip(c, c->left < DRAIN_BYTES ? c->left : DRAIN_BYTES);
  if (n < 0 && errno == EAGAIN) return 0;
  if (n <= 0) return -1;
  if (measuring) sum.bytes += n;
  c->left -= n;
  return c->left == 0;
}

static void record(struct conn *c, uint64_t now) {
  if (c->due < begin_at || c->due >= end_at) return;
  sum.bucket[bucket_of(now - c->due)]++;
}

// conn_ready moves a connection on: 1 if it has been answered and is free again.
static int conn_ready(struct conn *c) {
  if (c->phase == FREE && wire_quiet(c)) return 0;
  if (c->phase == FREE) return conn_reopen(c), sum.reconnects += measuring, 0;
  int r = c->unsent ? conn_send(c) : 1;
  if (r > 0 && c->phase == HEAD) r = read_head(c);
  if (r > 0 && c->phase == BODY) r = read_body(c);
  if (r > 0 && c->phase == BODY && (c->closing || per_request)) c->phase = ENDING;
  if (r > 0 && c->phase == ENDING) r = wire_ended(c);
  if (r == 0) return 0;
  if (r < 0) sum.errors += measuring;
  if (r > 0) sum.requests += measuring, record(c, now_ns());
  if (r < 0 || c->phase == ENDING) {
    if (!per_request) sum.reconnects += measuring;
    conn_reopen(c);
  }
  c->phase = FREE;
  return 1;
}

// ---- the three loads ----

// tick starts the measurement when warming up is over; 0 when all is over.
static int tick(uint64_t now) {
  if (!measuring && now >= begin_at) {
    measuring = 1;
    puts("begin");
    fflush(stdout);
  }
  return now < end_at;
}

static void closed_loop(void) {
  struct epoll_event ev[EVENTS];
  for (int i = 0; i < count; i++) conn_ask(&conns[i], now_ns());
  for (uint64_t now; tick(now = now_ns());) {
    int n = epoll_wait(ep, ev, EVENTS, STALL_MS);
    if (n == 0) die("no answer");
    for (int i = 0; i < n; i++)
      if (conn_ready(ev[i].data.ptr)) conn_ask(ev[i].data.ptr, now_ns());
  }
}

// overdue is a queue of due times that found no free connection; idle is a stack of
// free connections.
static struct { uint64_t at[BACKLOG]; size_t head, tail; } overdue;
static struct conn **idle;
static int idles;

static uint64_t next_gap(double rate) {
  static uint64_t x = 88172645463325252u; // xorshift64 (Marsaglia 2003), always from this seed
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return -log(((x >> 11) + 1) * 0x1p-53) / rate * 1e9;
}

static void arrive(uint64_t due) {
  if (idles > 0) return conn_ask(idle[--idles], due);
  if (overdue.tail - overdue.head < BACKLOG)
    overdue.at[overdue.tail++ % BACKLOG] = due;
  else
    sum.errors++;
}

static void answered(struct conn *c) {
  if (overdue.head < overdue.tail)
    conn_ask(c, overdue.at[overdue.head++ % BACKLOG]);
  else
    idle[idles++] = c;
}

// late counts what was due but never answered, with the time it has waited so far.
static void late(uint64_t now) {
  for (int i = 0; i < count; i++)
    if (conns[i].phase != FREE) sum.unfinished++, record(&conns[i], now);
  for (; overdue.head < overdue.tail; overdue.head++) {
    struct conn waiting = {.due = overdue.at[overdue.head % BACKLOG]};
    sum.unfinished++, record(&waiting, now);
  }
}

static void open_loop(double rate) {
  struct epoll_event ev[EVENTS];
  for (int i = 0; i < count; i++) idle[idles++] = &conns[i];
  uint64_t due = now_ns();
  uint64_t now, last = end_at + 1000000000u; // a second for those still on their way
  while (tick(now = now_ns()) || (idles < count && now < last)) {
    for (; due <= now && due < end_at; due += next_gap(rate)) arrive(due);
    uint64_t wait = due < end_at && due > now ? due - now : 1000000;
    struct timespec t = {.tv_sec = wait / 1000000000u, .tv_nsec = wait % 1000000000u};
    int n = epoll_pwait2(ep, ev, EVENTS, &t, NULL);
    for (int i = 0; i < n; i++) {
      struct conn *c = ev[i].data.ptr;
      if (conn_ready(c)) answered(c);
    }
  }
  late(now_ns());
}

// idle_hold asks once on each connection, a few at a time, then holds them all.
static void idle_hold(void) {
  struct epoll_event ev[EVENTS];
  int begun = 0, open = 0;
  char end;
  measuring = 1;
  while (open < count) {
    for (; begun < count && begun - open < OPENING; begun++) {
      conn_open(&conns[begun]);
      conn_ask(&conns[begun], now_ns());
    }
    int n = epoll_wait(ep, ev, EVENTS, STALL_MS);
    if (n == 0) die("no answer");
    for (int i = 0; i < n; i++) open += conn_ready(ev[i].data.ptr);
    if (sum.errors || sum.reconnects) {
      fprintf(stderr, "the server failed, or ended, one of the first %d connections\n", begun);
      exit(1);
    }
  }
  sum.requests = sum.bytes = 0;
  puts("begin");
  fflush(stdout);
  while (read(0, &end, 1) > 0) continue;
  for (int i = 0; i < count; i++) sum.requests += wire_quiet(&conns[i]);
}

static void set_up(char **argv, int holding) {
  port = atoi(argv[2]), count = atoi(argv[3]);
  request_len = snprintf(request, sizeof request,
                         "GET %s HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: sluice-bench/1\r\n"
                         "Accept: */*\r\n%s\r\n", argv[4], per_request ? "Connection: close\r\n" : "");
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_TIMERSLACK, 1); // ns; the default 50 us would be part of every open-loop latency
  ep = epoll_create1(0);
  conns = calloc(count, sizeof *conns);
  idle = calloc(count, sizeof *idle);
  wire_set_up(holding);
  for (int i = 0; i < count && !holding; i++) conn_open(&conns[i]);
}

int main(int argc, char **argv) {
  int holding = argc == 5 && !strcmp(argv[1], "idle");
  if (!holding && argc != 8) {
    fprintf(stderr, "usage: load closed|open|idle PORT CONNS TARGET [WARM_MS RUN_MS keep|close|full|resumed|RATE]\n");
    return 2;
  }
  resuming = !holding && !strcmp(argv[7], "resumed");
  handshakes = resuming || (!holding && !strcmp(argv[7], "full"));
  per_request = handshakes || (!holding && !strcmp(argv[7], "close"));
  set_up(argv, holding);
  uint64_t start = now_ns();
  if (holding) {
    idle_hold();
  } else {
    begin_at = start + atoll(argv[5]) * 1000000u;
    end_at = begin_at + atoll(argv[6]) * 1000000u;
    strcmp(argv[1], "open") ? closed_loop() : open_loop(atof(argv[7]));
    start = begin_at;
  }
  report((end_at && end_at < now_ns() ? end_at : now_ns()) - start);
  return 0;
}
