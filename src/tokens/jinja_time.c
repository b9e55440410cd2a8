#include "tokens/jinja_time.h"

#include <stdio.h>

#include "tokens/jinja_run.h"

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

static int hour12(const struct tm *when) {
    return when->tm_hour % 12 == 0 ? 12 : when->tm_hour % 12;
}

/* ISO 8601: weeks begin on Monday, week 1 holds the year's first Thursday. */
static int iso_week(const struct tm *when, int *year) {
    int weekday = (when->tm_wday + 6) % 7;
    int thursday = when->tm_yday - weekday + 3;
    *year = when->tm_year + 1900;
    if (thursday < 0) {
        *year -= 1;
        bool leap = (*year % 4 == 0 && *year % 100 != 0) || *year % 400 == 0;
        thursday += leap ? 366 : 365;
    } else {
        bool leap = (*year % 4 == 0 && *year % 100 != 0) || *year % 400 == 0;
        int length = leap ? 366 : 365;
        if (thursday >= length) {
            *year += 1;
            thursday -= length;
        }
    }
    return thursday / 7 + 1;
}

/* The number a directive of the clock or the day stands for; -1: another directive. */
static int small_number(char directive, const struct tm *when) {
    int year = 0;
    switch (directive) {
    case 'd':
    case 'e':
        return when->tm_mday;
    case 'm':
        return when->tm_mon + 1;
    case 'y':
        return when->tm_year % 100;
    case 'C':
        return (when->tm_year + 1900) / 100;
    case 'H':
    case 'k':
        return when->tm_hour;
    case 'I':
    case 'l':
        return hour12(when);
    case 'M':
        return when->tm_min;
    case 'S':
        return when->tm_sec;
    case 'U':
        return (when->tm_yday + 7 - when->tm_wday) / 7;
    case 'W':
        return (when->tm_yday + 7 - (when->tm_wday + 6) % 7) / 7;
    case 'V':
        return iso_week(when, &year);
    default:
        return -1;
    }
}

/* A directive that is a number: its value, width and what fills it. */
static bool numeric(char directive, const struct tm *when, int *value, int *width, char *fill) {
    *width = 2;
    *fill = (char)(directive == 'e' || directive == 'k' || directive == 'l' ? ' ' : '0');
    switch (directive) {
    case 'Y':
        *value = when->tm_year + 1900;
        *width = 4;
        return true;
    case 'G':
        (void)iso_week(when, value);
        *width = 4;
        return true;
    case 'j':
        *value = when->tm_yday + 1;
        *width = 3;
        return true;
    case 'u':
        *value = when->tm_wday == 0 ? 7 : when->tm_wday;
        *width = 1;
        return true;
    case 'w':
        *value = when->tm_wday;
        *width = 1;
        return true;
    default:
        *value = small_number(directive, when);
        return *value >= 0;
    }
}

/* Directives that are other directives in a row. */
static const char *compound(char directive) {
    switch (directive) {
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    default:
        return NULL;
    }
}

static void write_name(fn_jrun *run, fn_jbuf *buf, const char *name, bool whole) {
    fn_jval text = fn_jstr_text(run, name);
    if (!fn_j_failed(text)) {
        fn_jbuf_add(run, buf, name, whole || text.as.s->n < 3 ? text.as.s->n : 3, false);
    }
}

/* false: no directive. */
static bool write_word(fn_jrun *run, fn_jbuf *buf, char directive, const struct tm *when,
                       long microseconds) {
    char text[16];
    switch (directive) {
    case 'a':
    case 'A':
        write_name(run, buf, days[when->tm_wday % 7], directive == 'A');
        return true;
    case 'b':
    case 'h':
    case 'B':
        write_name(run, buf, months[when->tm_mon % 12], directive == 'B');
        return true;
    case 'p':
        fn_jbuf_add_text(run, buf, when->tm_hour < 12 ? "AM" : "PM");
        return true;
    case 'P':
        fn_jbuf_add_text(run, buf, when->tm_hour < 12 ? "am" : "pm");
        return true;
    case 'f':
        (void)snprintf(text, sizeof text, "%06ld", microseconds % 1000000);
        fn_jbuf_add_text(run, buf, text);
        return true;
    case 'n':
    case 't':
    case '%':
        fn_jbuf_add_text(run, buf, directive == 'n' ? "\n" : directive == 't' ? "\t" : "%");
        return true;
    case 'Z': /* a time without zone, as datetime.now() is */
    case 'z':
        return true;
    default:
        return false;
    }
}

static void write_directive(fn_jrun *run, fn_jbuf *buf, char directive, char flag,
                            const struct tm *when, long microseconds) {
    int value = 0;
    int width = 0;
    char fill = '0';
    char text[32];
    if (numeric(directive, when, &value, &width, &fill)) {
        fill = (char)(flag == '_' ? ' ' : flag == '0' ? '0' : fill);
        width = flag == '-' ? 1 : width;
        (void)(fill == ' ' ? snprintf(text, sizeof text, "%*d", width, value)
                           : snprintf(text, sizeof text, "%0*d", width, value));
        fn_jbuf_add_text(run, buf, text);
    } else if (!write_word(run, buf, directive, when, microseconds)) {
        (void)snprintf(text, sizeof text, "%%%s%c", flag == '-' ? "-" : "", directive);
        fn_jbuf_add_text(run, buf, text);
    }
}

void fn_jtime_write(fn_jrun *run, fn_jbuf *buf, const fn_jstr *format, const struct tm *when,
                    long microseconds) {
    for (size_t at = 0; at < format->n; at++) {
        if (format->p[at] != '%' || at + 1 >= format->n) {
            fn_jbuf_add_part(run, buf, format, at, at + 1);
            continue;
        }
        char flag = format->p[at + 1];
        bool flagged = (flag == '-' || flag == '_' || flag == '0') && at + 2 < format->n;
        at += flagged ? 2 : 1;
        const char *parts = compound(format->p[at]);
        for (size_t i = 0; parts != NULL && parts[i] != 0; i++) {
            if (parts[i] != '%') {
                fn_jbuf_add(run, buf, parts + i, 1, false);
                continue;
            }
            i++;
            write_directive(run, buf, parts[i], 0, when, microseconds);
        }
        if (parts == NULL) {
            write_directive(run, buf, format->p[at], (char)(flagged ? flag : 0), when,
                            microseconds);
        }
    }
}
