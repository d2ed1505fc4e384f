/* Threads, signals, timers, futexes, shared memory and sockets, by libc and raw. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition)                                                                        \
        do {                                                                                   \
                if (!(condition)) {                                                            \
                        printf("line %d: %s: %s\n", __LINE__, #condition, strerror(errno));    \
                        exit(1);                                                               \
                }                                                                              \
        } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *count(void *unused) {
        (void) unused;
        for (int i = 0; i < 1000; i++) {
                pthread_mutex_lock(&mutex);
                counter++;
                pthread_mutex_unlock(&mutex);
        }
        return NULL;
}

static void threads(void) {
        pthread_t all[10];
        for (int i = 0; i < 10; i++)
                MUST(pthread_create(&all[i], NULL, count, NULL) == 0);
        for (int i = 0; i < 10; i++)
                MUST(pthread_join(all[i], NULL) == 0);
        MUST(counter == 10000);
}

static void descriptors(void) {
        int loop = epoll_create1(0), bell = eventfd(0, 0), clock = timerfd_create(CLOCK_MONOTONIC, 0);
        struct epoll_event event = {.events = EPOLLIN};
        MUST(loop >= 0 && bell >= 0 && clock >= 0);
        MUST(epoll_ctl(loop, EPOLL_CTL_ADD, clock, &event) == 0);
        MUST(timerfd_settime(clock, 0, &(struct itimerspec){.it_value.tv_nsec = 1000000}, NULL) == 0);
        MUST(epoll_wait(loop, &event, 1, 1000) == 1);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        MUST(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && signalfd(-1, &set, 0) >= 0);
        int memory = memfd_create("x", MFD_ALLOW_SEALING);
        MUST(memory >= 0 && ftruncate(memory, 4096) == 0);
        MUST(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) != MAP_FAILED);
        MUST(close_range(100, 200, 0) == 0);
}

static void processes(void) {
        pid_t child;
        int status;
        char *argv[] = {(char *) "true", NULL};
        MUST(posix_spawn(&child, "/bin/true", NULL, NULL, argv, NULL) == 0);
        MUST(waitpid(child, &status, 0) == child && status == 0);
        child = fork();
        if (child == 0) {
                setsid();
                pause();
        }
        int pidfd = (int) syscall(SYS_pidfd_open, child, 0);
        MUST(pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0);
        MUST(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static void messages(void) {
        int shm = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600), sem = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600), queue = msgget(IPC_PRIVATE, 0600);
        MUST(shm >= 0 && sem >= 0 && queue >= 0 && shmat(shm, NULL, 0) != (void *) -1);
        int named = shm_open("/x", O_CREAT | O_RDWR, 0600);
        MUST(named >= 0 && sem_open("/y", O_CREAT, 0600, 1) != SEM_FAILED);
        int pair[2];
        MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
        int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET6, SOCK_STREAM, 0);
        struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        MUST(udp >= 0 && tcp >= 0 && bind(udp, (struct sockaddr *) &here, sizeof here) == 0);
        MUST(setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0);
}

int main(void) {
        threads();
        descriptors();
        processes();
        messages();
        puts("works");
        return 0;
}
