#include "cli/signals.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/report.h"

/* A signal's handler can reach nothing that is not global. */
static struct {
    volatile sig_atomic_t n_interrupts, terminated, typing_hidden;
    struct termios typing_shown; /* the terminal as it was before typing was hidden */
    char path_to_remove[4096];
    const fn_engine *engine; /* whose mapped files may fail */
} shared;                    /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables) */

void cli_signals_show_typing(void) {
    if (shared.typing_hidden != 0) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &shared.typing_shown);
        shared.typing_hidden = 0;
    }
}

void cli_signals_hide_typing(void) {
    if (shared.typing_hidden == 0 && tcgetattr(STDIN_FILENO, &shared.typing_shown) == 0) {
        struct termios hidden = shared.typing_shown;
        hidden.c_lflag &= ~(tcflag_t)ECHO;
        shared.typing_hidden = 1;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &hidden);
    }
}

static void leave(int code) {
    static const char plain[] = "\033[0m\n";
    cli_signals_show_typing();
    if (isatty(STDERR_FILENO)) {
        ssize_t ignored = write(STDERR_FILENO, plain, sizeof plain - 1);
        (void)ignored;
    }
    _exit(code);
}

static void on_interrupt(int number) {
    (void)number;
    if (shared.n_interrupts >= 1) {
        leave(CLI_EXIT_INTERRUPTED);
    }
    shared.n_interrupts = shared.n_interrupts + 1;
}

static void on_terminate(int number) {
    (void)number;
    shared.terminated = 1;
}

static void on_end(int number) {
    if (shared.path_to_remove[0] != 0) {
        (void)unlink(shared.path_to_remove);
    }
    leave(number == SIGTERM ? CLI_EXIT_TERMINATED : CLI_EXIT_INTERRUPTED);
}

static void install(int number, void (*handler)(int)) {
    /* No SA_RESTART: a read at the prompt must end when the signal comes. */
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

void cli_signals_catch(void) {
    install(SIGINT, on_interrupt);
    install(SIGTERM, on_terminate);
}

void cli_signals_end_removing(const char *path) {
    (void)snprintf(shared.path_to_remove, sizeof shared.path_to_remove, "%s",
                   path != NULL ? path : "");
    install(SIGINT, on_end);
    install(SIGTERM, on_end);
}

void cli_signals_ignore_size_limit(void) {
    install(SIGXFSZ, SIG_IGN);
}

static void say(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    (void)context;
    const char *file =
        shared.engine != NULL ? fn_engine_mapped_file(shared.engine, info->si_addr) : NULL;
    if (file == NULL) { /* our own mistake: let it be seen */
        (void)signal(number, SIG_DFL);
        return;
    }
    if (shared.path_to_remove[0] != 0) {
        (void)unlink(shared.path_to_remove);
    }
    say("flashnext: ");
    say(file);
    say(": shrank or could not be read while it was in use\n");
    leave(CLI_EXIT_MODEL);
}

void cli_signals_guard(const fn_engine *engine) {
    struct sigaction action;
    shared.engine = engine;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, NULL);
}

bool cli_interrupted(void) {
    return shared.n_interrupts > 0;
}

bool cli_terminated(void) {
    return shared.terminated != 0;
}

bool cli_stop_asked(void) {
    return cli_interrupted() || cli_terminated();
}

void cli_interrupt_clear(void) {
    shared.n_interrupts = 0;
}

int cli_signal_exit_code(void) {
    return cli_terminated() ? CLI_EXIT_TERMINATED : CLI_EXIT_INTERRUPTED;
}
