/*
 * Signals that end a long run: see stop.h.
 */
#include "split/profiles/stop.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

bool stop_start(struct stop *stop, struct error *error)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    sigset_t wanted;

    *stop = (struct stop){.fd = -1};
    sigemptyset(&wanted);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&wanted, numbers[i]);
    }
    pthread_sigmask(SIG_BLOCK, &wanted, &stop->blocked);
    stop->fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (stop->fd >= 0)
        return true;
    error_set_errno(error, errno, "signals cannot be waited for");
    pthread_sigmask(SIG_SETMASK, &stop->blocked, NULL);
    return false;
}

bool stop_wanted(struct stop *stop)
{
    struct signalfd_siginfo come;

    if (stop->signal == 0 && read(stop->fd, &come, sizeof(come)) == (ssize_t)sizeof(come))
        stop->signal = (int)come.ssi_signo;
    return stop->signal != 0;
}

void stop_end(struct stop *stop)
{
    close(stop->fd);
    pthread_sigmask(SIG_SETMASK, &stop->blocked, NULL);
}
