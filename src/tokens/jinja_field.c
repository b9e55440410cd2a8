/* Laying out one value in a field (jinja_format.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tokens/jinja_format.h"
#include "tokens/jinja_number.h"
#include "tokens/jinja_repr.h"
#include "tokens/jinja_run.h"

static void fill(fn_jrun *run, fn_jbuf *buf, uint32_t c, size_t n) {
    if (n > run->limits.output_bytes || !fn_jrun_step(run, n / 16)) {
        (void)fn_jrun_limit(run, "more than %zu bytes of text", run->limits.output_bytes);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        fn_jbuf_add_char(run, buf, c != 0 ? c : ' ', false);
    }
}

void fn_jfield_text(fn_jrun *run, fn_jbuf *buf, const fn_jfield *field, const fn_jstr *s) {
    size_t chars = s->n_chars;
    if (field->precision >= 0 && (size_t)field->precision < chars) {
        chars = (size_t)field->precision;
    }
    size_t width = field->width > 0 ? (size_t)field->width : 0;
    size_t pad = width > chars ? width - chars : 0;
    size_t left = field->align == '>' ? pad : field->align == '^' ? pad / 2 : 0;
    fill(run, buf, field->fill, left);
    fn_jbuf_add_part(run, buf, s, 0, fn_jstr_offset(s, chars));
    fill(run, buf, field->fill, pad - left);
}

/* digits with a separator each `every` of them, counted from the right; stops at '.' or 'e'. */
static size_t group_digits(const char *digits, size_t n, char separator, size_t every, char *out) {
    size_t whole = 0;
    while (whole < n && digits[whole] >= '0' && digits[whole] <= '9') {
        whole++;
    }
    size_t at = 0;
    for (size_t i = 0; i < whole; i++) {
        if (separator != 0 && i > 0 && (whole - i) % every == 0) {
            out[at++] = separator;
        }
        out[at++] = digits[i];
    }
    memcpy(out + at, digits + whole, n - whole);
    return at + n - whole;
}

static void lay_out(fn_jrun *run, fn_jbuf *buf, const fn_jfield *field, const char *sign,
                    const char *digits, size_t n) {
    size_t width = field->width > 0 ? (size_t)field->width : 0;
    size_t used = strlen(sign) + n;
    size_t pad = width > used ? width - used : 0;
    char align = (char)(field->align != 0 ? field->align : field->zero ? '=' : '>');
    uint32_t with = field->fill != 0 ? field->fill : field->zero ? '0' : ' ';
    size_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    fill(run, buf, with, left);
    fn_jbuf_add_text(run, buf, sign);
    fill(run, buf, with, align == '=' ? pad : 0);
    fn_jbuf_add(run, buf, digits, n, false);
    fill(run, buf, with, align == '=' ? 0 : pad - left);
}

static const char *sign_of(const fn_jfield *field, bool negative) {
    return negative ? "-" : field->sign == '+' ? "+" : field->sign == ' ' ? " " : "";
}

static size_t in_base(uint64_t value, unsigned base, bool upper, char *out) {
    char reversed[72];
    size_t n = 0;
    do {
        unsigned digit = (unsigned)(value % base);
        reversed[n++] =
            (char)(digit < 10 ? '0' + (char)digit : (upper ? 'A' : 'a') + (char)(digit - 10));
        value /= base;
    } while (value > 0);
    for (size_t i = 0; i < n; i++) {
        out[i] = reversed[n - 1 - i];
    }
    return n;
}

static void field_integer(fn_jrun *run, fn_jbuf *buf, const fn_jfield *field, int64_t value) {
    char digits[80];
    char grouped[160];
    char lead[8];
    unsigned base = field->type == 'x' || field->type == 'X' ? 16
                    : field->type == 'o'                     ? 8
                    : field->type == 'b'                     ? 2
                                                             : 10;
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t n = in_base(magnitude, base, field->type == 'X', digits);
    n = group_digits(digits, n, field->group, base == 10 ? 3 : 4, grouped);
    const char *prefix = field->alternate && base != 10 ? (field->type == 'x'   ? "0x"
                                                           : field->type == 'X' ? "0X"
                                                           : field->type == 'o' ? "0o"
                                                                                : "0b")
                                                        : "";
    (void)snprintf(lead, sizeof lead, "%s%s", sign_of(field, value < 0), prefix);
    lay_out(run, buf, field, lead, grouped, n);
}

static void field_float(fn_jrun *run, fn_jbuf *buf, const fn_jfield *field, double value) {
    char digits[720];
    char grouped[960];
    bool percent = field->type == '%';
    char kind = (char)(field->type == 0 ? 'g' : percent || field->type == 'F' ? 'f' : field->type);
    int precision =
        field->precision >= 0 ? (int)(field->precision < 300 ? field->precision : 300) : 6;
    double shown = fabs(percent ? value * 100.0 : value);
    size_t n = 0;
    if (isnan(value) || isinf(value)) {
        memcpy(digits, isnan(value) ? "nan" : "inf", 3);
        n = 3;
    } else if (field->type == 0 && field->precision < 0) {
        n = fn_jnum_repr(shown, digits);
    } else {
        bool general = kind == 'g' || kind == 'G';
        n = fn_jnum_print(shown, kind, general && precision == 0 ? 1 : precision, digits,
                          sizeof digits - 4);
    }
    if (percent) {
        digits[n++] = '%';
    }
    n = group_digits(digits, n, field->group, 3, grouped);
    lay_out(run, buf, field, sign_of(field, signbit(value) != 0 && !isnan(value)), grouped, n);
}

static void field_bigint(fn_jrun *run, fn_jbuf *buf, const fn_jfield *field, const fn_jstr *s) {
    bool negative = s->p[0] == '-';
    const char *digits = s->p + (negative ? 1 : 0);
    size_t n = s->n - (negative ? 1 : 0);
    char *grouped = fn_jrun_alloc(run, 2 * n);
    if (grouped != NULL) {
        n = group_digits(digits, n, field->group, 3, grouped);
        lay_out(run, buf, field, sign_of(field, negative), grouped, n);
    }
}

bool fn_jfield_number(fn_jrun *run, fn_jbuf *buf, const fn_jfield *field, fn_jval v) {
    bool wants_float = field->type != 0 && strchr("eEfFgG%", field->type) != NULL;
    bool wants_base = field->type != 0 && strchr("xXob", field->type) != NULL;
    if (v.type == FN_J_FLOAT || wants_float) {
        field_float(run, buf, field, fn_jnum_double(v));
    } else if (v.type == FN_J_BIGINT && wants_base) {
        (void)fn_jrun_error(run, "integers beyond 64 bits are printed in decimal only");
    } else if (v.type == FN_J_BIGINT) {
        field_bigint(run, buf, field, v.as.s);
    } else {
        field_integer(run, buf, field, v.type == FN_J_BOOL ? (v.as.b ? 1 : 0) : v.as.i);
    }
    return run->status == FN_OK;
}
