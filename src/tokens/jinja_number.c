#include "tokens/jinja_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokens/jinja_run.h"
#include "tokens/jinja_string.h"

/* As int() and json.loads refuse longer ones. */
#define TWO_63 9223372036854775808.0

fn_jval fn_jnum_parse_int(fn_jrun *run, const char *p, size_t n) {
    bool negative = n > 0 && p[0] == '-';
    size_t at = n > 0 && (p[0] == '-' || p[0] == '+') ? 1 : 0;
    while (at + 1 < n && p[at] == '0') {
        at++;
    }
    int64_t value = 0;
    bool fits = true;
    for (size_t i = at; i < n && fits; i++) {
        int digit = negative ? -(p[i] - '0') : p[i] - '0';
        fits = !__builtin_mul_overflow(value, (int64_t)10, &value) &&
               !__builtin_add_overflow(value, (int64_t)digit, &value);
    }
    if (fits) {
        return fn_j_int(value);
    }
    if (n - at > FN_JNUM_MAX_DIGITS) {
        return fn_jrun_error(run,
                             "Exceeds the limit (%d digits) for integer string conversion: value "
                             "has %zu digits; use sys.set_int_max_str_digits() to increase the "
                             "limit",
                             FN_JNUM_MAX_DIGITS, n - at);
    }
    char *text = fn_jrun_alloc(run, n + 1);
    if (text == NULL) {
        return fn_j_fail();
    }
    text[0] = '-';
    memcpy(text + (negative ? 1 : 0), p + at, n - at);
    fn_jval v = fn_jstr_view(run, text, n - at + (negative ? 1 : 0), false);
    if (!fn_j_failed(v)) {
        v.type = FN_J_BIGINT;
    }
    return v;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads digits into out without leading zeros, at most room of them; *scale counts those behind a
 * point as negative powers of ten and those that were dropped as positive ones. */
static size_t mantissa(const char *p, size_t n, size_t *at, char *out, size_t room, long *scale) {
    size_t digits = 0;
    bool point = false;
    for (; *at < n && (is_digit(p[*at]) || (p[*at] == '.' && !point)); (*at)++) {
        if (p[*at] == '.') {
            point = true;
            continue;
        }
        *scale -= point ? 1 : 0;
        if (digits == 0 && p[*at] == '0') {
            continue;
        }
        if (digits < room) {
            out[digits++] = p[*at];
        } else {
            *scale += 1;
        }
    }
    return digits;
}

/* An exponent behind `e`, as far as it matters; *ok is false when digits are missing. */
static long exponent_at(const char *p, size_t n, size_t *at, bool *ok) {
    bool minus = *at < n && p[*at] == '-';
    *at += *at < n && (p[*at] == '-' || p[*at] == '+') ? 1 : 0;
    *ok = *at < n && is_digit(p[*at]);
    long exponent = 0;
    for (; *at < n && is_digit(p[*at]); (*at)++) {
        exponent = exponent < 100000 ? exponent * 10 + (p[*at] - '0') : exponent;
    }
    return minus ? -exponent : exponent;
}

double fn_jnum_parse_float(const char *p, size_t n, bool *ok) {
    /* Written as digits and an exponent, without a point, the text means the same in any locale. */
    char text[840];
    bool negative = n > 0 && p[0] == '-';
    size_t first = negative || (n > 0 && p[0] == '+') ? 1 : 0;
    size_t at = first;
    long scale = 0;
    size_t digits = mantissa(p, n, &at, text, 800, &scale);
    *ok = at > first && (is_digit(p[first]) || (at > first + 1));
    if (*ok && at < n && (p[at] == 'e' || p[at] == 'E')) {
        at++;
        scale += exponent_at(p, n, &at, ok);
    }
    *ok = *ok && at == n;
    if (!*ok || digits == 0) {
        return negative ? -0.0 : 0.0;
    }
    (void)snprintf(text + digits, sizeof text - digits, "e%ld", scale);
    double d = strtod(text, NULL);
    return negative ? -d : d;
}

/* The digits of d at `precision` significant ones, and its decimal exponent. */
static size_t significant(double d, int precision, char *digits, int *exponent) {
    char text[64];
    (void)snprintf(text, sizeof text, "%.*e", precision - 1, d);
    size_t n = 0;
    size_t at = 0;
    for (; text[at] != 0 && text[at] != 'e'; at++) {
        if (is_digit(text[at])) {
            digits[n++] = text[at];
        }
    }
    *exponent = (int)strtol(text + at + 1, NULL, 10);
    while (n > 1 && digits[n - 1] == '0') {
        n--;
    }
    return n;
}

static double from_digits(const char *digits, size_t n, int exponent) {
    char text[64];
    (void)snprintf(text, sizeof text, "%.*se%d", (int)n, digits, exponent - (int)n + 1);
    return strtod(text, NULL);
}

/* Positional form for exponents -4 ... 15, else d.ddde+XX. */
static size_t lay_out(bool negative, const char *digits, size_t n, int exponent, char *out) {
    size_t at = 0;
    if (negative) {
        out[at++] = '-';
    }
    if (exponent < -4 || exponent >= 16) {
        out[at++] = digits[0];
        if (n > 1) {
            out[at++] = '.';
            memcpy(out + at, digits + 1, n - 1);
            at += n - 1;
        }
        int wrote = snprintf(out + at, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return at + (size_t)wrote;
    }
    if (exponent < 0) {
        memcpy(out + at, "0.000", 5);
        at += (size_t)(1 - exponent);
        memcpy(out + at, digits, n);
        return at + n;
    }
    size_t whole = (size_t)exponent + 1;
    for (size_t i = 0; i < whole; i++) {
        out[at++] = '0';
        if (i < n) {
            out[at - 1] = digits[i];
        }
    }
    out[at++] = '.';
    if (n <= whole) {
        out[at++] = '0';
        return at;
    }
    memcpy(out + at, digits + whole, n - whole);
    return at + n - whole;
}

size_t fn_jnum_repr(double d, char out[FN_JNUM_REPR_BYTES]) {
    if (isnan(d) || isinf(d)) {
        const char *text = isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
        memcpy(out, text, strlen(text));
        return strlen(text);
    }
    char digits[32];
    int exponent = 0;
    size_t n = 0;
    double magnitude = fabs(d);
    for (int precision = 1; precision <= 17; precision++) {
        n = significant(magnitude, precision, digits, &exponent);
        double back = from_digits(digits, n, exponent);
        if (!(back < magnitude) && !(back > magnitude)) {
            break;
        }
    }
    return lay_out(signbit(d) != 0, digits, n, exponent, out);
}

static int print_as(char kind, int precision, double d, char *text, size_t room) {
    switch (kind) {
    case 'e':
        return snprintf(text, room, "%.*e", precision, d);
    case 'E':
        return snprintf(text, room, "%.*E", precision, d);
    case 'g':
        return snprintf(text, room, "%.*g", precision, d);
    case 'G':
        return snprintf(text, room, "%.*G", precision, d);
    default:
        return snprintf(text, room, "%.*f", precision, d);
    }
}

size_t fn_jnum_print(double d, char kind, int precision, char *out, size_t room) {
    char text[700];
    int n = print_as(kind, precision < 300 ? precision : 300, d, text, sizeof text);
    if (n < 0 || (size_t)n >= sizeof text) {
        return 0;
    }
    size_t at = 0;
    bool in_point = false;
    for (int i = 0; i < n && at < room; i++) {
        bool plain = is_digit(text[i]) || text[i] == '-' || text[i] == '+' ||
                     (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
        if (plain) {
            out[at++] = text[i];
        } else if (!in_point) {
            out[at++] = '.'; /* whatever the locale's decimal point is */
        }
        in_point = !plain;
    }
    return at;
}

static int64_t small_int(fn_jval v) {
    return v.type == FN_J_BOOL ? (v.as.b ? 1 : 0) : v.as.i;
}

double fn_jnum_double(fn_jval v) {
    if (v.type == FN_J_FLOAT) {
        return v.as.d;
    }
    if (v.type == FN_J_BIGINT) {
        bool ok = false;
        return fn_jnum_parse_float(v.as.s->p, v.as.s->n, &ok);
    }
    return (double)small_int(v);
}

static int compare_doubles(double a, double b) {
    return isnan(a) || isnan(b) ? 2 : a < b ? -1 : a > b ? 1 : 0;
}

static int compare_int_double(int64_t i, double d) {
    if (isnan(d)) {
        return 2;
    }
    if (d >= TWO_63 || d < -TWO_63) {
        return d > 0 ? -1 : 1;
    }
    int64_t whole = (int64_t)d;
    if (i != whole) {
        return i < whole ? -1 : 1;
    }
    return compare_doubles(0.0, d - trunc(d));
}

static int compare_bigints(const fn_jstr *a, const fn_jstr *b) {
    bool a_negative = a->p[0] == '-';
    bool b_negative = b->p[0] == '-';
    if (a_negative != b_negative) {
        return a_negative ? -1 : 1;
    }
    int order = a->n < b->n ? -1 : a->n > b->n ? 1 : memcmp(a->p, b->p, a->n);
    order = order < 0 ? -1 : order > 0 ? 1 : 0;
    return a_negative ? -order : order;
}

int fn_jnum_compare(fn_jval a, fn_jval b) {
    if (a.type == FN_J_FLOAT && b.type == FN_J_FLOAT) {
        return compare_doubles(a.as.d, b.as.d);
    }
    if (a.type == FN_J_BIGINT && b.type == FN_J_BIGINT) {
        return compare_bigints(a.as.s, b.as.s);
    }
    if (a.type == FN_J_FLOAT || b.type == FN_J_BIGINT) {
        int order = a.type == FN_J_BIGINT || b.type == FN_J_BIGINT
                        ? compare_doubles(fn_jnum_double(a), fn_jnum_double(b))
                        : compare_int_double(small_int(b), a.as.d);
        bool swapped = a.type == FN_J_FLOAT && b.type != FN_J_BIGINT && order != 2;
        return swapped ? -order : order;
    }
    if (a.type == FN_J_BIGINT) {
        return compare_doubles(fn_jnum_double(a), fn_jnum_double(b));
    }
    if (b.type == FN_J_FLOAT) {
        return compare_int_double(small_int(a), b.as.d);
    }
    int64_t i = small_int(a);
    int64_t j = small_int(b);
    return i < j ? -1 : i > j ? 1 : 0;
}

static fn_jval too_large(fn_jrun *run) {
    return fn_jrun_error(run, "integers beyond 64 bits cannot be computed with");
}

static fn_jval int_power(fn_jrun *run, int64_t base, int64_t exponent) {
    int64_t result = 1;
    int64_t square = base;
    bool over = false;
    for (int64_t e = exponent; e > 0; e >>= 1) {
        if ((e & 1) != 0) {
            over = over || __builtin_mul_overflow(result, square, &result);
        }
        bool last = e == 1;
        if (!last && __builtin_mul_overflow(square, square, &square)) {
            over = true;
        }
        if (over) {
            return too_large(run);
        }
    }
    return fn_j_int(result);
}

static fn_jval int_floor(fn_jrun *run, char op, int64_t a, int64_t b) {
    if (b == 0) {
        return fn_jrun_error(
            run, "%s", op == 'f' ? "integer division or modulo by zero" : "integer modulo by zero");
    }
    if (b == -1) {
        if (op == '%') {
            return fn_j_int(0);
        }
        return a == INT64_MIN ? too_large(run) : fn_j_int(-a);
    }
    int64_t quotient = a / b;
    int64_t rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) {
        quotient--;
        rest += b;
    }
    return fn_j_int(op == 'f' ? quotient : rest);
}

static fn_jval float_binary(fn_jrun *run, char op, double a, double b) {
    bool zero = !(b < 0) && !(b > 0) && !isnan(b);
    double rest = 0.0;
    switch (op) {
    case '+':
        return fn_j_float(a + b);
    case '-':
        return fn_j_float(a - b);
    case '*':
        return fn_j_float(a * b);
    case '/':
        return zero ? fn_jrun_error(run, "float division by zero") : fn_j_float(a / b);
    case 'p':
        if (!(a < 0) && !(a > 0) && b < 0) {
            return fn_jrun_error(run, "0.0 cannot be raised to a negative power");
        }
        if (isinf(pow(a, b)) && !isinf(a) && !isinf(b)) {
            return fn_jrun_error(run, "(34, 'Numerical result out of range')");
        }
        return fn_j_float(pow(a, b));
    default:
        break;
    }
    if (zero) {
        return fn_jrun_error(run, "%s",
                             op == 'f' ? "float floor division by zero" : "float modulo");
    }
    rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest < 0 || rest > 0) {
        if ((rest < 0) != (b < 0)) {
            rest += b;
            quotient -= 1.0;
        }
    } else {
        rest = copysign(0.0, b);
    }
    double whole = floor(quotient);
    whole += quotient - whole > 0.5 ? 1.0 : 0.0;
    whole = whole < 0 || whole > 0 ? whole : copysign(0.0, a / b);
    return fn_j_float(op == 'f' ? whole : rest);
}

fn_jval fn_jnum_binary(fn_jrun *run, char op, fn_jval a, fn_jval b) {
    if (a.type == FN_J_FLOAT || b.type == FN_J_FLOAT) {
        return float_binary(run, op, fn_jnum_double(a), fn_jnum_double(b));
    }
    if (a.type == FN_J_BIGINT || b.type == FN_J_BIGINT) {
        return too_large(run);
    }
    int64_t i = small_int(a);
    int64_t j = small_int(b);
    int64_t result = 0;
    bool over = false;
    switch (op) {
    case '+':
        over = __builtin_add_overflow(i, j, &result);
        break;
    case '-':
        over = __builtin_sub_overflow(i, j, &result);
        break;
    case '*':
        over = __builtin_mul_overflow(i, j, &result);
        break;
    case '/':
        return j == 0 ? fn_jrun_error(run, "division by zero")
                      : fn_j_float((double)((long double)i / (long double)j));
    case 'p':
        return j < 0 ? float_binary(run, op, (double)i, (double)j) : int_power(run, i, j);
    default:
        return int_floor(run, op, i, j);
    }
    return over ? too_large(run) : fn_j_int(result);
}

static fn_jval negate_digits(fn_jrun *run, const char *p, size_t n) {
    if (p[0] == '-') {
        return fn_jnum_parse_int(run, p + 1, n - 1);
    }
    char *text = fn_jrun_alloc(run, n + 1);
    if (text == NULL) {
        return fn_j_fail();
    }
    text[0] = '-';
    memcpy(text + 1, p, n);
    return fn_jnum_parse_int(run, text, n + 1);
}

fn_jval fn_jnum_negate(fn_jrun *run, fn_jval v) {
    if (v.type == FN_J_FLOAT) {
        return fn_j_float(-v.as.d);
    }
    if (v.type == FN_J_BIGINT) {
        return negate_digits(run, v.as.s->p, v.as.s->n);
    }
    if (v.type == FN_J_INT && v.as.i == INT64_MIN) {
        return fn_jnum_parse_int(run, "9223372036854775808", 19);
    }
    return fn_jnum_binary(run, '-', fn_j_int(0), v);
}

fn_jval fn_jnum_round(fn_jrun *run, fn_jval v, int64_t digits) {
    if (v.type != FN_J_FLOAT) {
        return v.type == FN_J_BOOL ? fn_j_int(v.as.b ? 1 : 0) : v;
    }
    if (isnan(v.as.d) || isinf(v.as.d) || digits > 300) {
        return v;
    }
    if (digits >= 0) {
        char text[700];
        size_t n = fn_jnum_print(v.as.d, 'f', (int)digits, text, sizeof text);
        bool ok = false;
        return fn_j_float(fn_jnum_parse_float(text, n, &ok));
    }
    if (digits < -308) {
        return fn_j_float(0.0 * v.as.d);
    }
    double unit =
        (double)fn_jnum_double(fn_jnum_binary(run, 'p', fn_j_float(10.0), fn_j_int(-digits)));
    return fn_j_float(nearbyint(v.as.d / unit) * unit);
}
