/*
 * A small web server that works like srvwd 1.4. Its processes share a listening socket. For
 * each connection, a process forks a child, which reads one request, sends the response,
 * closes the connection and exits. Children send files of the current folder in pieces of
 * 1024 bytes.
 *
 * Usage: srvwd PORT PROCESSES
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACKLOG 1024
#define PIECE 1024
#define MAX_HEAD 8192

static const char bad_request[] = "400 Bad Request";
static const char not_found[] = "404 Not Found";

static int die(const char *what)
{
	perror(what);
	return 1;
}

/* Writes n bytes. Returns -1 if the client has closed the connection. */
static int write_all(int to, const char *from, size_t n)
{
	while (n > 0) {
		ssize_t done = write(to, from, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return -1;
		from += done;
		n -= (size_t)done;
	}
	return 0;
}

static int write_head(int to, const char *status, const char *type, long long length)
{
	char head[256];
	int n = snprintf(head, sizeof head,
			 "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %lld\r\nConnection: close\r\n\r\n",
			 status, type, length);
	return write_all(to, head, (size_t)n);
}

static void send_error(int client, const char *status)
{
	if (write_head(client, status, "text/plain", (long long)strlen(status) + 1) == 0 &&
	    write_all(client, status, strlen(status)) == 0)
		(void)write_all(client, "\n", 1);
}

/* Returns the media type of a file name. srvwd knows six extensions. */
static const char *type_of(const char *path)
{
	static const char *const types[][2] = {
		{".txt", "text/plain"}, {".html", "text/html"}, {".css", "text/css"},
		{".pdf", "application/pdf"}, {".jpg", "image/jpeg"}, {".png", "image/png"},
	};
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < sizeof types / sizeof types[0]; i++)
		if (strcmp(dot, types[i][0]) == 0)
			return types[i][1];
	return "text/html";
}

/* Reads up to the empty line that ends the head. Returns -1 if none arrives or the head is too long. */
static int read_head(int client, char *head, size_t size)
{
	size_t have = 0;

	while (have < size - 1) {
		ssize_t n = read(client, head + have, size - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		have += (size_t)n;
		head[have] = 0;
		if (strstr(head, "\r\n\r\n") || strstr(head, "\n\n"))
			return 0;
	}
	return -1;
}

static void send_file(int client, const char *path, int with_body)
{
	char piece[PIECE];
	struct stat is;
	ssize_t n;
	int file = open(path, O_RDONLY);

	if (file < 0 || fstat(file, &is) < 0 || !S_ISREG(is.st_mode)) {
		send_error(client, not_found);
		return;
	}
	if (write_head(client, "200 OK", type_of(path), (long long)is.st_size) < 0 || !with_body)
		return;
	while ((n = read(file, piece, sizeof piece)) > 0)
		if (write_all(client, piece, (size_t)n) < 0)
			return;
}

static void respond(int client)
{
	char head[MAX_HEAD], method[8], path[1024];
	const char *name = path;

	if (read_head(client, head, sizeof head) < 0)
		return;
	if (sscanf(head, "%7s %1000s", method, path) != 2 || path[0] != '/') {
		send_error(client, bad_request);
		return;
	}
	while (*name == '/')
		name++;
	if (*name == 0)
		name = "index.html";
	if ((strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) || strstr(name, "..")) {
		send_error(client, not_found);
		return;
	}
	send_file(client, name, strcmp(method, "GET") == 0);
}

/* Waits for children, so that the kernel adds their CPU time to that of this process. */
static void reap(int signal)
{
	int was = errno;

	(void)signal;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = was;
}

static void serve(int listener)
{
	for (;;) {
		int client = accept(listener, NULL, NULL);
		pid_t child;

		if (client < 0)
			continue;
		child = fork();
		if (child == 0) {
			close(listener);
			respond(client);
			_exit(0);
		}
		if (child < 0)
			perror("fork");
		close(client);
	}
}

static int listen_on(int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
	    bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, BACKLOG) < 0)
		return -1;
	return listener;
}

int main(int argc, char **argv)
{
	struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
	int listener, processes;

	if (argc != 3 || (processes = atoi(argv[2])) < 1) {
		fprintf(stderr, "usage: srvwd PORT PROCESSES\n");
		return 2;
	}
	if ((listener = listen_on(atoi(argv[1]))) < 0)
		return die("listen");
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || sigaction(SIGCHLD, &on_child, NULL) < 0)
		return die("signal");
	for (int i = 1; i < processes; i++) {
		pid_t child = fork();
		if (child < 0)
			return die("fork");
		if (child == 0)
			break;
	}
	serve(listener);
}
