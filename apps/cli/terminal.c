#include "cli/terminal.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/multiline.h"
#include "cli/paths.h"
#include "cli/signals.h"

#define HISTORY_LINES 1000
#define PASTE_BEGINS L"\033[200~"
#define PASTE_ENDS L"\033[201~"

struct cli_terminal {
    EditLine *edit;
    HistoryW *history;
    char *history_path; /* or NULL */
    FILE *out;          /* where the line is edited: stdout, unless that is no terminal */
    bool colors;
    bool more;     /* the prompt is for a further line of one message */
    bool had_text; /* when a signal came, something was typed; the editor forgets it */
};

/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): a handler sets it */
static volatile sig_atomic_t resized;

static void on_resize(int number) {
    (void)number;
    resized = 1;
}

void cli_terminal_use_utf8(void) {
    (void)setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    }
}

bool cli_terminal_colors(const cli_options *options, int fd) {
    const char *color = cli_text(options, CLI_OPT_COLOR);
    if (color != NULL && strcmp(color, "auto") != 0) {
        return strcmp(color, "on") == 0;
    }
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    bool refused = no_color != NULL && no_color[0] != 0;
    return !refused && isatty(fd) && term != NULL && strcmp(term, "dumb") != 0;
}

/* ---- the editor's callbacks ------------------------------------------------------------- */

static cli_terminal *terminal_of(EditLine *edit) {
    void *data = NULL;
    (void)el_wget(edit, EL_CLIENTDATA, &data);
    return data;
}

/* \1 stands around what takes no place on the screen. */
static wchar_t *prompt(EditLine *edit) {
    static wchar_t bold[] = L"\1\033[1m\1>\1\033[0m\1 ";
    static wchar_t bold_more[] = L"\1\033[1m\1.\1\033[0m\1 ";
    static wchar_t plain[] = L"> ";
    static wchar_t plain_more[] = L". ";
    const cli_terminal *terminal = terminal_of(edit);
    if (terminal->colors) {
        return terminal->more ? bold_more : bold;
    }
    return terminal->more ? plain_more : plain;
}

/* Was anything typed on the line? */
static bool line_has_text(EditLine *edit) {
    const LineInfoW *line = el_wline(edit);
    return line->lastchar > line->buffer;
}

/* Waits for a byte; signals get through only while waiting, so none is missed. -1: a signal
 * came. */
static int read_byte(EditLine *edit, char *out) {
    sigset_t blocked;
    sigset_t before;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGINT);
    (void)sigaddset(&blocked, SIGTERM);
    (void)sigaddset(&blocked, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &blocked, &before);
    int got = 0;
    for (;;) {
        if (cli_stop_asked()) {
            terminal_of(edit)->had_text = line_has_text(edit);
            errno = EINTR;
            got = -1;
            break;
        }
        if (resized != 0) {
            resized = 0;
            el_resize(edit);
            (void)el_wset(edit, EL_REFRESH);
        }
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(STDIN_FILENO, &readable);
        if (pselect(STDIN_FILENO + 1, &readable, NULL, NULL, NULL, &before) > 0) {
            got = (int)read(STDIN_FILENO, out, 1);
            break;
        }
        if (errno != EINTR) {
            got = -1;
            break;
        }
    }
    int error = errno;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return got;
}

static int read_character(EditLine *edit, wchar_t *out) {
    mbstate_t state;
    memset(&state, 0, sizeof state);
    for (;;) {
        char byte = 0;
        int got = read_byte(edit, &byte);
        if (got <= 0) {
            return got;
        }
        size_t n = mbrtowc(out, &byte, 1, &state);
        if (n == (size_t)-1) {
            memset(&state, 0, sizeof state); /* not a character: left out */
        } else if (n != (size_t)-2) {
            return 1;
        }
    }
}

/* Terminals send pasted text between two marks: it is put in as it is, lines and all. */
static unsigned char paste(EditLine *edit, int key) {
    (void)key;
    size_t n = 0;
    size_t capacity = 256;
    wchar_t *text = cli_alloc(capacity * sizeof *text);
    const size_t n_end = wcslen(PASTE_ENDS);
    wchar_t c = 0;
    while (el_wgetc(edit, &c) == 1) {
        if (n + 2 > capacity) {
            wchar_t *larger = cli_alloc(2 * capacity * sizeof *larger);
            memcpy(larger, text, n * sizeof *text);
            free(text);
            text = larger;
            capacity *= 2;
        }
        text[n++] = c == L'\r' ? L'\n' : c;
        text[n] = 0;
        if (n >= n_end && wcscmp(text + n - n_end, PASTE_ENDS) == 0) {
            n -= n_end;
            text[n] = 0;
            break;
        }
    }
    bool fits = n == 0 || el_winsertstr(edit, text) == 0;
    free(text);
    return fits ? CC_REFRESH : CC_REFRESH_BEEP;
}

/* ---- open and close --------------------------------------------------------------------- */

static void bind_keys(EditLine *edit) {
    static const wchar_t *const keys[][2] = {
        {L"^R", L"em-inc-search-prev"},     {L"\033[1;5C", L"em-next-word"},
        {L"\033[1;5D", L"ed-prev-word"},    {L"\033[3~", L"ed-delete-next-char"},
        {L"\033[H", L"ed-move-to-beg"},     {L"\033[F", L"ed-move-to-end"},
        {PASTE_BEGINS, L"flashnext-paste"},
    };
    (void)el_wset(edit, EL_ADDFN, L"flashnext-paste", L"insert pasted text", paste);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        (void)el_wset(edit, EL_BIND, keys[i][0], keys[i][1], NULL);
    }
}

static void open_history(cli_terminal *terminal) {
    terminal->history = history_winit();
    if (terminal->history == NULL) {
        return;
    }
    HistEventW event;
    (void)history_w(terminal->history, &event, H_SETSIZE, HISTORY_LINES);
    (void)history_w(terminal->history, &event, H_SETUNIQUE, 1);
    terminal->history_path = cli_path_history();
    if (terminal->history_path != NULL) {
        (void)history_w(terminal->history, &event, H_LOAD, terminal->history_path);
    }
    (void)el_wset(terminal->edit, EL_HIST, history_w, terminal->history);
}

cli_terminal *cli_terminal_open(bool colors) {
    cli_terminal *terminal = cli_alloc(sizeof *terminal);
    terminal->colors = colors;
    terminal->out = isatty(STDOUT_FILENO) ? stdout : stderr;
    terminal->edit = el_init("flashnext", stdin, terminal->out, stderr);
    if (terminal->edit == NULL) {
        free(terminal);
        return NULL;
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_resize;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGWINCH, &action, NULL);
    EditLine *edit = terminal->edit;
    (void)el_wset(edit, EL_CLIENTDATA, terminal);
    (void)el_wset(edit, EL_EDITOR, L"emacs");
    (void)el_wset(edit, EL_SIGNAL, 0);
    (void)el_wset(edit, EL_PROMPT_ESC, prompt, L'\1');
    (void)el_wset(edit, EL_GETCFN, read_character);
    open_history(terminal);
    bind_keys(edit);
    (void)el_source(edit, NULL);
    return terminal;
}

void cli_terminal_close(cli_terminal *terminal) {
    if (terminal == NULL) {
        return;
    }
    el_end(terminal->edit);
    if (terminal->history != NULL) {
        history_wend(terminal->history);
    }
    free(terminal->history_path);
    free(terminal);
}

/* ---- reading ---------------------------------------------------------------------------- */

static void remember(cli_terminal *terminal, const char *text) {
    if (terminal->history == NULL) {
        return;
    }
    size_t n = mbstowcs(NULL, text, 0);
    if (n == 0 || n == (size_t)-1) {
        return;
    }
    wchar_t *wide = cli_alloc((n + 1) * sizeof *wide);
    (void)mbstowcs(wide, text, n + 1);
    HistEventW event;
    (void)history_w(terminal->history, &event, H_ENTER, wide);
    if (terminal->history_path != NULL) {
        (void)history_w(terminal->history, &event, H_SAVE, terminal->history_path);
    }
    free(wide);
}

/* One edited line, as UTF-8 without its newline. */
static cli_line read_line(cli_terminal *terminal, cli_buffer *out) {
    int n = 0;
    fputs("\033[?2004h", terminal->out); /* pasted text shall be marked */
    (void)fflush(terminal->out);
    const wchar_t *wide = el_wgets(terminal->edit, &n);
    fputs("\033[?2004l", terminal->out);
    if (wide == NULL || n <= 0) {
        fputc('\n', terminal->out);
        (void)fflush(terminal->out);
        if (cli_terminated()) {
            return CLI_LINE_TERMINATE;
        }
        if (!cli_interrupted()) {
            return CLI_LINE_END;
        }
        cli_interrupt_clear();
        return terminal->had_text || terminal->more ? CLI_LINE_DISCARDED : CLI_LINE_INTERRUPT;
    }
    (void)fflush(terminal->out);
    size_t bytes = wcstombs(NULL, wide, 0);
    if (bytes != (size_t)-1) {
        char *text = cli_alloc(bytes + 1);
        (void)wcstombs(text, wide, bytes + 1);
        bool newline = bytes > 0 && text[bytes - 1] == '\n';
        cli_buffer_add(out, text, newline ? bytes - 1 : bytes);
        free(text);
    }
    return CLI_LINE_READ;
}

cli_line cli_terminal_read(cli_terminal *terminal, cli_buffer *out) {
    cli_multiline state = {0};
    cli_line result = CLI_LINE_READ;
    cli_buffer line = {0};
    bool complete = false;
    terminal->more = false;
    while (!complete) {
        cli_buffer_clear(&line);
        result = read_line(terminal, &line);
        if (result != CLI_LINE_READ) {
            break;
        }
        complete = cli_multiline_add(&state, cli_buffer_text(&line), line.n, out);
        terminal->more = true;
    }
    if (result == CLI_LINE_READ && out->n > 0) {
        remember(terminal, out->data);
    }
    cli_buffer_free(&line);
    return result;
}
